"""Tasks of a MobileGym checkout, as its own Python lists them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from mobilerl.envs.base import Task
from mobilerl.envs.mobilegym.bench import REQUIREMENTS, Bench, BenchFault

SUITE = "mobilegym"
Split = Literal["train", "test", "payment"]
REPOSITORY = "https://github.com/Zhang-Henry/mobilegym"
LIST_S = 120.0
"""Time limit for listing the tasks, in seconds."""


class CheckoutError(ValueError):
    """The checkout cannot be used. The message is one line and says what to do."""


def find_checkout(path: str) -> Path:
    """The folder of a checkout that has been built. Raises CheckoutError."""
    folder = Path(path).expanduser().resolve()
    if not (folder / "bench_env" / "splits").is_dir():
        raise CheckoutError(f"{folder} is no checkout of MobileGym: `git clone {REPOSITORY}`")
    if not (folder / "dist" / "index.html").is_file():
        raise CheckoutError(f"{folder} is not built: run `npm ci && npm run build` in it")
    return folder


@cache
def list_tasks(checkout: Path, python: str, split: Split, instances: int, seed: int) -> tuple[Task, ...]:
    """At most `instances` of every task in a split, with parameters drawn from `seed`. Raises CheckoutError.

    Must not be called from a running event loop. Tasks that take no parameters have one instance.
    """
    try:
        return tuple(map(_task, asyncio.run(_listed(checkout, python, split, instances, seed))))
    except BenchFault as fault:
        needs = f": give suite.python an interpreter with {REQUIREMENTS} of the checkout"
        raise CheckoutError(f"{checkout}: {fault}{needs if 'ModuleNotFoundError' in str(fault) else ''}") from None


async def _listed(checkout: Path, python: str, split: Split, instances: int, seed: int) -> Sequence[dict[str, Any]]:
    bench = Bench(checkout, python)

    async def no_page(name: str, args: list[Any]) -> Any:
        raise RuntimeError(f"{name} was called without a page")

    try:
        request = {"do": "list", "splits": [split], "instances": instances, "seed": seed}
        return await bench.ask(request, no_page, LIST_S)
    finally:
        await bench.close()


def _task(listed: dict[str, Any]) -> Task:
    return Task(
        id=f"{SUITE}/{listed['template']}/{listed['number']}",
        template=listed["template"],
        instruction=listed["instruction"],
        params={"split": listed["split"], "difficulty": listed["difficulty"]},
        seed=listed["seed"],
        max_steps=listed["max_steps"],
        suite=SUITE,
        app=", ".join(listed["apps"]),
    )


def find_python(given: str) -> str:
    """The interpreter that `suite.python` names, "" for this one. Raises CheckoutError if there is none."""
    if given and not os.access(path := Path(given).expanduser(), os.X_OK):
        raise CheckoutError(f"suite.python: {path} is no program")
    return str(Path(given).expanduser().absolute()) if given else ""
