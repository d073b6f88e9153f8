"""The worker process: a collector with devices and a copy of the policy."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

from mobilerl.config import Recipe
from mobilerl.envs.base import DeviceReport, Task
from mobilerl.models.checkpoint_folder import latest
from mobilerl.records import Group, LostGroup
from mobilerl.suites.fleet import Part
from mobilerl.system.free_memory import give_back_free_memory

COUNT_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Assignment:
    """Groups for a worker to collect. `weights` is None if the worker already has those of `version`."""

    jobs: tuple[tuple[str, Task], ...]
    """Group ids, unique within a run, and their tasks."""
    seed: int
    version: int
    weights: bytes | None
    evaluate: bool = False
    """Whether to play one greedy episode per task instead of groups."""
    draw: bool = True
    """Whether something reads the screenshots."""


@dataclass(frozen=True, slots=True)
class WorkerResult:
    groups: tuple[Group, ...]
    counts: Counter[str]
    busy_s: float
    judged: Mapping[str, float]
    """`counts`, `busy_s` and `judged` are the increments of this assignment."""
    status: Mapping[str, float]
    last_fault: str
    devices: tuple[DeviceReport, ...]
    """`status`, `last_fault` and `devices` are the collector's after this assignment."""
    lost: tuple[LostGroup, ...] = ()


def main(pipe: Connection, notes: Connection, recipe: Recipe, part: Part, run_dir: Path | None) -> None:
    """Carries out the assignments received through `pipe` on `part` of the run's devices.

    Sends through `notes`, at any time, DeviceEvents and the number of episodes that have ended in the assignment.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the learner handles Ctrl-C and ends its workers
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_the_learner, daemon=True).start()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    asyncio.run(_serve(pipe, notes, recipe, part, run_dir))


async def _serve(pipe: Connection, notes: Connection, recipe: Recipe, part: Part, run_dir: Path | None) -> None:
    """Carries out assignments until there are no more. The pool maintains its devices in between."""
    state: _WorkerState | None = None
    while True:
        try:
            order = await asyncio.to_thread(pipe.recv)
        except (EOFError, OSError):
            return  # the learner is gone
        if order is None:
            if state is not None:
                await state.collector.close()
            return
        try:
            if state is None:
                state = _WorkerState(recipe, part, run_dir, notes)
            answer: WorkerResult | str = await state.collect(order)
        except Exception:  # sent to the learner, which raises it
            answer = traceback.format_exc()
        pipe.send(answer)
        del order, answer  # so that they are not kept until the next order
        give_back_free_memory()


def _end_with_the_learner() -> None:
    """Exits with the learner, even during an episode, so that a resumed run does not share cores with this worker."""
    learner = multiprocessing.parent_process()
    assert learner is not None
    wait([learner.sentinel])
    os._exit(1)


class _WorkerState:
    """A worker's engine and collector."""

    def __init__(self, recipe: Recipe, part: Part, run_dir: Path | None, notes: Connection) -> None:
        from mobilerl.engines.registry import make_engine
        from mobilerl.suites.base import make_suite
        from mobilerl.suites.fleet import fleet_type, make_devices
        from mobilerl.training.setup import make_collector

        self._index = part.index
        settings = recipe.engine.model_copy(update={"threads": 1})
        # A checkpoint of the run, in place of a start model that is gone, may have been deleted since.
        newest = latest(run_dir) if run_dir and not Path(recipe.model).is_dir() else None
        self.engine = make_engine(newest or recipe.model, settings, recipe.rollout.temperature)
        in_process = fleet_type(recipe.fleet).in_process and make_suite(recipe).in_process
        self.collector = make_collector(recipe, self.engine, make_devices(recipe, run_dir, part), in_process, part.of)
        self.collector.on_event(notes.send)
        self._notes, self._started = notes, False

    @asynccontextmanager
    async def _counting(self) -> AsyncIterator[None]:
        """Sends the number of episodes that have ended every second."""
        before = self.collector.ended

        async def count() -> None:
            while True:
                await asyncio.sleep(COUNT_EVERY_S)
                self._notes.send(self.collector.ended - before)

        counting = asyncio.create_task(count())
        try:
            yield
        finally:
            counting.cancel()

    async def collect(self, order: Assignment) -> WorkerResult:
        import torch

        if not self._started:
            await self.collector.start()
            self._started = True
        if order.weights is not None:
            self.engine.set_weights(order.weights, order.version)
        torch.manual_seed(order.seed)
        before, busy, judged = self.collector.counts.copy(), self.collector.busy_s, self.collector.count_judge_usage()
        async with self._counting():
            groups = await self._collect(order)
        lost = tuple(self.collector.take_lost())
        return WorkerResult(
            tuple(groups),
            self.collector.counts - before,
            self.collector.busy_s - busy,
            {name: value - judged[name] for name, value in self.collector.count_judge_usage().items()},
            self.collector.status(),
            self.collector.last_fault,
            tuple(self._add_worker(d) for d in self.collector.report()),
            lost,
        )

    async def _collect(self, order: Assignment) -> list[Group]:
        if order.evaluate:
            prefix = order.jobs[0][0].rpartition("-")[0]
            tasks = [task for _, task in order.jobs]
            return await self.collector.evaluate(tasks, f"{prefix}.{self._index}", order.draw)
        for group_id, task in order.jobs:
            await self.collector.dispatch(task, group_id, draw=order.draw)
        return [group async for group in self.collector.ready(len(order.jobs))]

    def _add_worker(self, report: DeviceReport) -> DeviceReport:
        """Adds the worker's index to the device's place, since every worker counts its places from 0."""
        return replace(report, place=f"{self._index}.{report.place}") if report.place.isdecimal() else report
