"""Tasks on a web app, from a file of instructions."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from mobilerl.envs.base import Task
from mobilerl.envs.browser.web import Web
from mobilerl.envs.instructions.tasks import SUITE, BareInstruction, InstructionFile, Line, read_as

WIDTH_DP = 360
"""Width of the screen in density-independent pixels."""
CONNECT_S = 5.0
PORTS = {"http": 80, "https": 443}


class WebInstruction(BareInstruction):
    """How to prepare a web app for an instruction, and how to check the result, in JavaScript that runs in its page."""

    start: Annotated[str, Field(pattern=r"^$|^[/?#]\S*$")] = ""
    """Path of the page in front at the start, such as `/list?sort=name`; by default that of the URL."""
    reset: tuple[Line, ...] = ()
    """Statements run before the episode, in this order; then the page is loaded again."""
    check: tuple[Line, ...] = ()
    """Expressions that must all be true (or a promise of it) once the agent has declared the task done."""
    answer: str = ""
    """Text that the agent's answer must contain, ignoring case."""

    @property
    def checked(self) -> bool:
        return bool(self.check or self.answer)


def read_web(path: str | Path) -> InstructionFile[WebInstruction]:
    """As `mobilerl.envs.instructions.tasks.read`."""

    def check(task: WebInstruction) -> None:
        if task.app:
            raise ValueError("app: a page shows no other app than that of suite.url; `start` is its path")

    return read_as(WebInstruction, path, check)


def make_web_task(instruction: WebInstruction, url: str) -> Task:
    return Task(
        id=f"{SUITE}/{instruction.id}",
        template=instruction.id,
        instruction=instruction.instruction,
        params={
            "reset": list(instruction.reset),
            "start": instruction.start,
            "check": list(instruction.check),
            "answer": instruction.answer,
            "split": instruction.split,
        },
        seed=0,
        max_steps=instruction.max_steps,
        suite=SUITE,
        app=address(url),
    )


def address(url: str) -> str:
    """HOST:PORT of a web app. Raises ValueError for a text that is no URL of one."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname or parts.username is not None:
        raise ValueError(f"{url!r} is no web app; give the address of yours, such as http://127.0.0.1:3000")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{parts.port or PORTS[parts.scheme]}"


def check_answers(url: str) -> None:
    """Raises ValueError if nothing answers at the address of a web app."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port or PORTS[parts.scheme]), CONNECT_S).close()
    except OSError as error:
        raise ValueError(f"nothing answers at {url} ({error.strerror or error}): start your web app first") from None


def web_of(url: str, width: int, height: int) -> Web:
    """What the pages of a web app may show, its own address, on a screen of this size in pixels."""
    scale = width / WIDTH_DP
    return Web(WIDTH_DP, round(height / scale), scale, addresses=(address(url),))
