"""How fast and how large an optimiser step is, beside TRL's and a plain Hugging Face loop on the same rows.

Each side runs in a process of its own, which does nothing while another is measured. They take turns for some rounds,
so that other work on the machine meets them alike. What each of them does is said in `benchmarks.sides`.

On a CPU the memory is what torch allocated, taken from its profiler in one further step that is not timed; on a GPU it
is `torch.cuda.max_memory_allocated`. Both count weights, gradients, optimiser state and everything in between.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.networks import PUBLISHED, Shape
from mobilerl.engines.base import EngineError

SIDES = ("mobilerl", "mobilerl-recompute", "hf", "trl", "trl-recompute")
PAIRS = (("mobilerl", "hf"), ("mobilerl", "trl"), ("mobilerl", "trl-recompute"), ("mobilerl-recompute", "mobilerl"),
         ("mobilerl-recompute", "trl"), ("mobilerl-recompute", "trl-recompute"))  # fmt: skip
"""Whose ratios are reported."""
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Load:
    """`rows` is rounded down to whole micro-batches of the sides that count rows. `threads`: torch's, on a CPU."""

    rows: int = 256
    micro_tokens: int = 4096
    rounds: int = 5
    threads: int = 1
    max_pixels: int = 1_000_000
    """Of a screenshot, for published sizes."""


def available() -> list[str]:
    """The sides whose packages are installed."""
    return [side for side in SIDES if not side.startswith("trl") or find_spec("trl")]


def measure(network: Shape | str, load: Load, sides: Sequence[str] | None = None) -> dict[str, Any]:
    """Makes a checkpoint and rows, and compares the sides on them. ValueError for what cannot be measured here."""
    sides = list(sides or available())
    _check(network, sides)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        _alone(_record, path, network, load)
        name = network if isinstance(network, str) else f"{network.hidden} wide, {network.layers} layers"
        return {"model": name, **compare(path / "model", path, load, sides)}


def _check(network: Shape | str, sides: Sequence[str]) -> None:
    if unknown := set(sides) - set(SIDES):
        raise ValueError(f"--sides: there is no {', '.join(sorted(unknown))}; choose of {', '.join(SIDES)}")
    if missing := set(sides) - set(available()):
        raise ValueError(f"--sides: {', '.join(sorted(missing))} needs TRL: pip install 'mobilerl[bench]'")
    import torch  # for a size, too: without torch, this command says so and not a process of its own

    if isinstance(network, Shape):
        if network.hidden % 32:
            raise ValueError(f"--hidden is {network.hidden}; it must be a multiple of 32")
        return
    if network not in PUBLISHED:
        raise ValueError(f"--network is {network!r}; choose one of {', '.join(PUBLISHED)}")
    if not torch.cuda.is_available():
        raise ValueError(f"--network {network} needs a GPU, and torch finds none here; use --hidden and --layers")


def compare(model: Path, run_dir: Path, load: Load, sides: Sequence[str]) -> dict[str, Any]:
    """One result per side on the rows recorded in `run_dir`, and the ratios of PAIRS."""
    with ExitStack() as stack:
        running = {side: stack.enter_context(_Worker(side, model, run_dir, load)) for side in sides}
        facts = {side: worker.ready() for side, worker in running.items()}
        for worker in running.values():  # first steps make optimiser state and warm caches
            worker.update()
        rounds = [{side: worker.update() for side, worker in running.items()} for _ in range(load.rounds)]
        memory = {side: worker.memory() for side, worker in running.items()}
    first = facts[sides[0]]
    results = [_result(side, [r[side] for r in rounds], memory[side], first) for side in sides]
    pairs = [(a, b) for a, b in PAIRS if a in sides and b in sides]
    ratios = [
        {"side": a, "against": b, **_ratio([r[a] for r in rounds], [r[b] for r in rounds], memory[a], memory[b])}
        for a, b in pairs
    ]
    return {**first, "micro_tokens": load.micro_tokens, "rounds": load.rounds, "sides": results, "ratios": ratios}


def _result(side: str, rounds: Sequence[Mapping[str, float]], memory: Mapping[str, float], facts: Mapping[str, Any]
            ) -> dict[str, Any]:  # fmt: skip
    wall = statistics.median(r["wall_s"] for r in rounds)
    row = {
        "side": side,
        "rows_per_s": facts["rows"] / wall,
        "rows_per_cpu_s": facts["rows"] / statistics.median(r["cpu_s"] for r in rounds),
        "tokens_per_s": facts["tokens"] / wall,
        "peak_mb": memory["peak_mb"],
        "held_mb": memory["held_mb"],
        "process_peak_mb": memory["process_peak_mb"],
        "grad_norm": rounds[0]["grad_norm"],
    }
    return row | ({"mfu": facts["flops"] / wall / facts["peak_flops"]} if facts["peak_flops"] else {})


def _ratio(ours: Sequence[Mapping[str, float]], theirs: Sequence[Mapping[str, float]], our_memory: Mapping[str, float],
           memory: Mapping[str, float]) -> dict[str, Any]:  # fmt: skip
    """How many times as fast, round by round, and the share of the memory."""
    speed = {}
    for name in ("wall_s", "cpu_s"):
        values = [b[name] / a[name] for a, b in zip(ours, theirs, strict=True)]
        label = name.removesuffix("_s")
        speed |= {f"{label}_speed": statistics.median(values), f"{label}_speed_min": min(values),
                  f"{label}_speed_max": max(values)}  # fmt: skip
    return {**speed, "memory": our_memory["peak_mb"] / memory["peak_mb"]}


# --- processes -----------------------------------------------------------------------------------------------------


class _Worker:
    """A side in its own process; as a context manager, it is ended at the end."""

    def __init__(self, side: str, model: Path, run_dir: Path, load: Load) -> None:
        self._pipe, other = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(other, side, model, run_dir, load), daemon=True)
        self._process.start()
        other.close()
        self.side = side

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self._pipe.close()
        self._process.join(30)
        if self._process.is_alive():
            self._process.kill()

    def ready(self) -> dict[str, Any]:
        return self._receive()

    def update(self) -> dict[str, float]:
        self._pipe.send("update")
        return self._receive()

    def memory(self) -> dict[str, float]:
        self._pipe.send("memory")
        return self._receive()

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except EOFError:
            raise EngineError(f"the process of {self.side} ended with its error above") from None


def _serve(pipe: Connection, side: str, model: Path, run_dir: Path, load: Load) -> None:
    import torch

    from benchmarks.sides import make
    from benchmarks.step import facts_of, load_step, peak_memory

    torch.set_num_threads(load.threads)
    step = load_step(model, run_dir, load.rows, load.micro_tokens)
    runner = make(side, step)
    pipe.send(facts_of(step, runner.model))
    while True:
        try:
            order = pipe.recv()
        except EOFError:
            return
        runner.prepare()
        if order == "memory":
            pipe.send(peak_memory(runner))
            continue
        wall, cpu = time.perf_counter(), time.process_time()
        norm = runner.update()  # a float: whatever runs on a GPU has ended
        pipe.send({"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu, "grad_norm": norm})


def _alone(function: Any, *args: Any) -> None:
    """Runs it in a process of its own: what it leaves in memory (a GPU's) must not count."""
    process = _SPAWN.Process(target=function, args=args)
    process.start()
    process.join()
    if process.exitcode:
        raise EngineError(f"{function.__name__.strip('_')} ended with its error above")


def _record(folder: Path, network: Shape | str, load: Load) -> None:
    from benchmarks.networks import make_checkpoint
    from benchmarks.rows import FULL, SMALL, expert_rows
    from mobilerl.trajectory_files import save_trajectories

    make_checkpoint(folder / "model", network, load.max_pixels)
    look = SMALL if isinstance(network, Shape) else FULL
    save_trajectories(folder, 0, expert_rows(folder / "model", load.rows, look))
