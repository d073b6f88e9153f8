"""`mobilerl bench gpu`: checks in 24 minutes at most whether a GPU computes the same as the CPU, and how fast.

Each phase runs in its own process with a deadline, and its lines are printed as they come, so that a crash, a hang or
too little memory costs only one phase. Without a GPU the phases run at a tiny size. A machine without internet needs
torch, transformers, accelerate and peft; `wheels.sh` next to this file packs the rest, vLLM and verl excepted.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import multiprocessing
import os
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from mobilerl.benchmarks.gpu.report import Line, Report
from mobilerl.system.terminal import make_console


@dataclass(frozen=True, slots=True)
class Phase:
    """A module of this package, with its deadline out of all seconds and the distributions that it needs."""

    seconds: float
    needs: tuple[str, ...] = ()
    after: str = ""
    """The phase whose checkpoint it goes on from."""


PHASES = {
    "calibrate": Phase(20),
    "families": Phase(60),
    "distributed": Phase(50),
    "learner": Phase(200),
    "sampler": Phase(70),
    "training": Phase(160),
    "collate": Phase(40),
    "vllm": Phase(330, ("vllm",)),
    "verl": Phase(250, ("verl", "ray", "vllm")),
    "resume": Phase(230, ("verl", "ray", "vllm"), after="verl"),
}


def measure(minutes: float, phases: Sequence[str] = tuple(PHASES)) -> dict[str, Any]:
    """Runs the phases and returns their lines. `failed` counts failed checks and phases that did not complete.

    The phases that can run here share the minutes. Without a GPU two run at a time, since no speed is of interest.
    """
    console = make_console(stderr=True)
    skipped = {phase: why for phase in phases if (why := _lacking(phase))}
    total = sum(PHASES[phase].seconds for phase in phases if phase not in skipped)
    found: dict[str, list[Line]] = {phase: [] for phase in phases}
    stop = threading.Event()

    def run(chain: Sequence[str]) -> None:
        for phase in itertools.takewhile(lambda _: not stop.is_set(), chain):
            began = time.monotonic()
            if phase in skipped:
                lines: Iterable[Line] = [Line(phase, f"skipped: {skipped[phase]}", {})]
            else:
                lines = _lines(phase, minutes * 60 * PHASES[phase].seconds / total, Path(folder), stop)
            for line in lines:
                found[phase].append(line)
                console.print(f"{line}", markup=False, highlight=False, soft_wrap=True)
            console.print(f"{phase}: {time.monotonic() - began:.0f} s", markup=False, highlight=False)

    at_once = 1 if torch.cuda.is_available() else 2
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_once) as pool:
        chains = [pool.submit(run, chain) for chain in _chains(phases)]
        try:
            for chain in chains:
                chain.result()
        except BaseException:  # Ctrl-C
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    all_lines = [line for lines in found.values() for line in lines]
    return {"failed": sum(line.ok is False for line in all_lines), "lines": [line.as_row() for line in all_lines]}


def _chains(phases: Sequence[str]) -> list[list[str]]:
    """The phases, each with those that go on from what it left."""
    chains: dict[str, list[str]] = {}
    for phase in phases:
        chains.setdefault(PHASES[phase].after or phase, []).append(phase)
    return list(chains.values())


def _lacking(phase: str) -> str:
    """Why the phase cannot run here, or ""."""
    if absent := [name for name in PHASES[phase].needs if importlib.util.find_spec(name) is None]:
        return f"{' and '.join(absent)} not installed"
    if "verl" in PHASES[phase].needs and not (torch.cuda.is_available() or os.environ.get("MOBILERL_VERL_CPU")):
        return "verl needs a GPU"
    return ""


def _lines(phase: str, seconds: float, folder: Path, stop: threading.Event) -> Iterator[Line]:
    """Yields a phase's lines as its process sends them; if it did not complete, the last one says why.

    Ends its process and itself within a second if `stop` is set.
    """
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_run, args=(phase, theirs, folder))
    process.start()
    theirs.close()
    ends = time.monotonic() + seconds
    try:
        while not stop.is_set():
            if (left := ends - time.monotonic()) <= 0:
                yield Line(phase, f"not done after {seconds:.0f} s", {}, ok=False)
                return
            if ours.poll(min(left, 1.0)):
                if (line := ours.recv()) is None:
                    return
                yield line
    except EOFError:
        process.join()
        yield Line(phase, f"ended with exit code {process.exitcode}", {}, ok=False)
    finally:
        process.kill()
        process.join()


def _run(phase: str, connection: Connection, folder: Path) -> None:
    if os.getpgrp() != os.getpid():
        os.setsid()  # a process group of its own, to which a phase may send signals
    report = Report(phase, connection.send, folder)
    try:
        importlib.import_module(f"mobilerl.benchmarks.gpu.{phase}").run(report)
    except Exception as error:
        traceback.print_exc()
        report.failure(f"{type(error).__name__}: {error}")
    connection.send(None)
