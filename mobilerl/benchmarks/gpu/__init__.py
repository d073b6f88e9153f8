"""`mobilerl bench gpu`: checks in ten minutes whether a GPU computes the same as the CPU, and how fast.

Each phase runs in its own process with a deadline, and its lines are printed as they come, so that a crash, a hang or
too little memory costs only one phase. Without a GPU all phases run at a tiny size. A machine without internet needs
torch, transformers, accelerate and peft; `wheels.sh` next to this file packs the rest.
"""

from __future__ import annotations

import importlib
import multiprocessing
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from mobilerl.benchmarks.gpu.report import Line, Report
from mobilerl.system.terminal import make_console

PHASES = {
    "calibrate": 20,
    "families": 60,
    "distributed": 50,
    "learner": 200,
    "sampler": 70,
    "training": 160,
    "collate": 40,
}
"""Deadlines of the phases in seconds, out of ten minutes; each phase is a module of this package."""
TOTAL = sum(PHASES.values())


def measure(minutes: float, phases: Sequence[str] = tuple(PHASES)) -> dict[str, Any]:
    """Runs the phases and returns their lines. `failed` counts failed checks and phases that did not complete."""
    lines: list[Line] = []
    console = make_console(stderr=True)
    for phase in phases:
        began = time.monotonic()
        for line in _lines(phase, minutes * 60 * PHASES[phase] / TOTAL):
            lines.append(line)
            console.print(f"{line}", markup=False, highlight=False, soft_wrap=True)
        console.print(f"{phase}: {time.monotonic() - began:.0f} s", markup=False, highlight=False)
    failed = [line for line in lines if line.ok is False]
    return {"failed": len(failed), "lines": [line.as_row() for line in lines]}


def _lines(phase: str, seconds: float) -> Any:
    """Yields a phase's lines as its process sends them; if it did not complete, the last one says why."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_run, args=(phase, theirs))
    process.start()
    theirs.close()
    ends = time.monotonic() + seconds
    try:
        while ours.poll(max(0.0, ends - time.monotonic())):
            line = ours.recv()
            if line is None:
                return
            yield line
        yield Line(phase, f"not done after {seconds:.0f} s", {}, ok=False)
    except EOFError:
        process.join()
        yield Line(phase, f"ended with exit code {process.exitcode}", {}, ok=False)
    finally:
        process.kill()
        process.join()


def _run(phase: str, connection: Connection) -> None:
    report = Report(phase, connection.send)
    try:
        importlib.import_module(f"mobilerl.benchmarks.gpu.{phase}").run(report)
    except Exception as error:
        traceback.print_exc()
        report.failure(f"{type(error).__name__}: {error}")
    connection.send(None)
