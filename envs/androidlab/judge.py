"""Judges a trace: runs AndroidLab's judges in a separate process with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobilerl.envs.androidlab.checkout import REPOSITORY, Checkout, CheckoutError
from mobilerl.envs.androidlab.tasks import LabTask
from mobilerl.envs.androidlab.trace import NO_TREE

CHILD = Path(__file__).with_name("judge_child.py")
TIMEOUT_S = 120.0
MAX_REPEATS = 5
"""A trace is read until the same action is repeated more often than this in a row."""
MAX_ROUNDS = 5
"""Maximum number of runs of a judge, each with the answers to the questions of the previous one."""
NEEDS = "give --judge-python an interpreter with the packages of docs/benchmarks.md"
Ask = Callable[[str, str, str], Awaitable[bool]]
"""(question, the agent's answer, the right answer) -> whether it is right. Raises JudgeFault if there is no verdict."""


class JudgeFault(Exception):
    """There is no outcome, because the judge is broken, hangs or cannot be asked. Says nothing about the agent."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A judge's verdict. `steps` are the indices of the judged lines of the trace."""

    complete: bool
    sub_goals: Mapping[str, bool]
    steps: tuple[int, ...]
    errors: tuple[str, ...] = ()
    """Steps at which the judge failed; AndroidLab skips them."""


class Judges:
    """The judges of a checkout. `python` is an interpreter with the packages that the checkout imports."""

    def __init__(self, checkout: Checkout, python: str = sys.executable, timeout_s: float = TIMEOUT_S) -> None:
        self.checkout, self.python, self.timeout_s = checkout, python, timeout_s

    async def check(self, tasks: Sequence[LabTask]) -> frozenset[str]:
        """Imports the judges of `tasks` and instantiates them. Raises CheckoutError if one cannot be used.

        Returns the ids of tasks whose judges ask a model whether an answer is right. AndroidLab's metric_type does not
        tell: setting_22 is an operation that asks, and setting_0 a query_detect that does not.
        """
        modules: dict[str, list[str]] = {}
        for task in tasks:
            modules.setdefault(task.module, []).append(task.id)
        try:
            found = await self._run({"check": modules})
        except JudgeFault as fault:
            raise CheckoutError(f"the judges of {self.checkout.path} cannot be loaded: {fault}") from None
        if problem := found["problem"]:
            lacks = "ModuleNotFoundError" in problem and "'evaluation" not in problem
            raise CheckoutError(
                f"{self.checkout.path}: {problem}; {NEEDS if lacks else f'check out {REPOSITORY} again'}"
            )
        return frozenset(found["asking"])

    async def judge(self, task: LabTask, folder: Path, lines: Sequence[Mapping[str, Any]], ask: Ask) -> Outcome:
        """The outcome of a trace. Raises JudgeFault if there is none."""
        read = read_lines(lines)
        steps = [_step(line, folder) for line in read if line["xml"] != NO_TREE]
        if not steps:
            raise JudgeFault("the trace has no step with a UI tree")
        answers: list[tuple[str, str, str, bool]] = []
        for _ in range(MAX_ROUNDS):
            found = await self._run({"module": task.module, "task_id": task.id, "steps": steps, "answers": answers})
            if not found["asked"]:
                return _outcome(found, [step["index"] for step in steps])
            answers += [(*question, await ask(*question)) for question in found["asked"]]
        raise JudgeFault(f"the judge keeps asking about new answers, such as {answers[-1][:3]}")

    async def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Runs the child once and returns its answer."""
        request = {"checkout": str(self.checkout.path), **request}
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"}
        with tempfile.TemporaryFile() as stderr:
            try:
                child = await asyncio.create_subprocess_exec(
                    self.python,
                    str(CHILD),
                    cwd=self.checkout.path,
                    env=environment,
                    start_new_session=True,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=stderr,
                )
            except OSError as error:
                raise JudgeFault(f"{self.python} does not start: {error.strerror}") from None
            try:
                async with asyncio.timeout(self.timeout_s):
                    out, _ = await child.communicate(json.dumps(request).encode())
            except TimeoutError:
                raise JudgeFault(f"no answer within {self.timeout_s:g} s") from None
            finally:
                if child.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child.pid, signal.SIGKILL)  # together with everything it started
                    await child.wait()
            try:
                return json.loads(out)
            except ValueError:
                raise JudgeFault(f"exit code {child.returncode}: {_last_line(stderr)}") from None


def read_lines(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The lines before an action has been repeated more than `MAX_REPEATS` times in a row."""
    read: list[Mapping[str, Any]] = []
    repeats = 0
    for line in lines:
        same = bool(read) and line["parsed_action"] == read[-1]["parsed_action"]
        repeats = repeats + 1 if same else 0
        if repeats > MAX_REPEATS:
            break
        read.append(line)
    return read


def _step(line: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A line of the trace with absolute paths."""
    return {**line, **{name: str((folder / line[name]).resolve()) for name in ("xml", "image")}}


def _outcome(found: Mapping[str, Any], indices: Sequence[int]) -> Outcome:
    errors = tuple(f"step {indices[i]}: {text}" for i, text in found["errors"])
    if not found["judged"]:
        raise JudgeFault(f"the judge fails at every step; {errors[0]}")
    final = found["final"] or {}
    goals = {key: value for key, value in final.items() if key != "complete"}
    return Outcome(final.get("complete", False), goals, tuple(indices[i] for i in found["judged"]), errors)


def _last_line(stderr: Any) -> str:
    """The last line of the child's standard error."""
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - 4096))
    lines = stderr.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip()[:300] if lines else "no message"
