"""Speed and memory of an optimizer step, compared with TRL's on the same samples.

Each side (sides.py) runs in its own process and is idle while another is measured. They take turns for several rounds,
so that other work on the machine affects them equally.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from mobilerl.benchmarks.samples import expert_rows, make_checkpoint
from mobilerl.benchmarks.sides import Side, Update, make, peak_memory

SIDES = ("mobilerl", "mobilerl-recompute", "trl", "trl-recompute")
PAIRS = (
    ("mobilerl", "trl"),
    ("mobilerl", "trl-recompute"),
    ("mobilerl-recompute", "mobilerl"),
    ("mobilerl-recompute", "trl"),
    ("mobilerl-recompute", "trl-recompute"),
)
"""Pairs of sides whose ratios are reported."""
MICRO_BATCH_TOKENS = 4096


def measure(hidden: int, layers: int, rows: int, rounds: int, threads: int) -> dict[str, Any]:
    """Results of the sides whose packages are installed, and the ratios of PAIRS. Raises ValueError for a bad width."""
    if hidden % 32:
        raise ValueError(f"--hidden is {hidden}; it must be a multiple of 32")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        make_checkpoint(model, hidden, layers)
        update = Update.of(model, expert_rows(model, rows), MICRO_BATCH_TOKENS)
        sides = [side for side in SIDES if not side.startswith("trl") or find_spec("trl")]
        measured = _run(sides, update, rounds, threads)
    count, tokens = len(update.rows), sum(len(r.prompt_ids) + len(r.response_ids) for r in update.rows)
    pairs = [(a, b) for a, b in PAIRS if a in sides and b in sides]
    return {
        "model": f"{hidden} wide, {layers} layers",
        "rows": count,
        "tokens": tokens,
        "rounds": rounds,
        "sides": [{"side": side, **_speed(measured[side], count)} for side in sides],
        "ratios": [{"side": a, "against": b, **_ratio(measured[a], measured[b])} for a, b in pairs],
    }


def _run(sides: Sequence[str], update: Update, rounds: int, threads: int) -> dict[str, dict[str, Any]]:
    """Measures the seconds of every round, and the memory of one more, for each side."""
    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        workers = {}
        for side in sides:
            worker = ProcessPoolExecutor(1, spawn, initializer=_start, initargs=(side, update, threads))
            workers[side] = stack.enter_context(worker)

        def call(function: Callable[[], Any]) -> dict[str, Any]:
            return {side: worker.submit(function).result() for side, worker in workers.items()}

        call(_update)  # creates the optimizer state and warms caches
        timed = [call(_update) for _ in range(rounds)]
        memory = call(_memory)
    return {side: {"rounds": [r[side] for r in timed], "peak_mb": memory[side]} for side in sides}


def _speed(measured: Mapping[str, Any], rows: int) -> dict[str, Any]:
    wall, cpu = (statistics.median(r[clock] for r in measured["rounds"]) for clock in ("wall", "cpu"))
    return {"rows_per_s": rows / wall, "rows_per_cpu_s": rows / cpu, "peak_mb": measured["peak_mb"]}


def _ratio(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, float]:
    """Speedup by round (median and range), and the ratio of memory."""
    ratios: dict[str, float] = {}
    for clock in ("wall", "cpu"):
        values = [b[clock] / a[clock] for a, b in zip(ours["rounds"], theirs["rounds"], strict=True)]
        ratios |= {
            f"{clock}_speed": statistics.median(values),
            f"{clock}_speed_min": min(values),
            f"{clock}_speed_max": max(values),
        }
    return {**ratios, "memory": ours["peak_mb"] / theirs["peak_mb"]}


# --- in the process of a side --------------------------------------------------------------------------------------

_side: Side


def _start(name: str, update: Update, threads: int) -> None:
    global _side
    torch.set_num_threads(threads)
    _side = make(name, update)


def _update() -> dict[str, float]:
    _side.prepare()
    wall, cpu = time.perf_counter(), time.process_time()
    _side.update()  # returns a float, so the GPU has finished
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def _memory() -> float:
    _side.prepare()
    return peak_memory(_side)
