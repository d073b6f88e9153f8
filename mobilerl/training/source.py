"""Sources of an iteration's groups: collected between updates, or during updates within a staleness bound."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from mobilerl.envs.base import Devices, InfraError, MobileEnv
from mobilerl.records import Group
from mobilerl.records.engine import Engine
from mobilerl.rollout.collector import Collector
from mobilerl.suites.fleet import make_devices
from mobilerl.training.run import Run
from mobilerl.training.setup import make_collector
from mobilerl.training.tasks import TaskSampler
from mobilerl.training.worker_process import WorkerResult
from mobilerl.training.workers import RolloutWorkers

if TYPE_CHECKING:
    from mobilerl.engines.local import LocalEngine

log = logging.getLogger(__name__)
Collectors = Collector | RolloutWorkers
PAUSE_S = 10.0
"""Seconds to pause after a collection without a usable group."""


class GroupSource(Protocol):
    can_resample: bool
    """Whether groups of the current iteration can be replaced."""

    async def take(self, n: int, label: str, draw: bool = True) -> list[Group]:
        """Returns the next `n` groups, fewer if some were lost. Their ids begin with `label`, unique in a run.

        Without `draw` no one reads their screenshots.
        """


async def take_some(
    source: GroupSource, n: int, label: str, give_up_s: float, collectors: Collectors, draw: bool = True
) -> list[Group]:
    """Repeats `source.take` until it returns a group, since an empty iteration would age the replay buffer and the
    curriculum. Raises InfraError with the last failure if no episode was completed for `give_up_s` seconds."""
    tried, until, finished = 0, math.inf, collectors.counts["finished"]
    while True:
        groups = await source.take(n, f"{label}-again{tried}" if tried else label, draw)
        if groups:
            return groups
        now = time.monotonic()
        if not tried or collectors.counts["finished"] > finished:
            until, finished = now + give_up_s, collectors.counts["finished"]
        if now >= until:
            raise InfraError(f"no episode was completed for {give_up_s:g} s; the last failure: {collectors.last_fault}")
        log.warning("%s: every group was lost; collecting others. The last failure: %s", label, collectors.last_fault)
        await asyncio.sleep(min(PAUSE_S, until - now))
        tried += 1


def _tell(sampler: TaskSampler, groups: list[Group], collectors: Collectors) -> None:
    """Tells the sampler which groups were completed and which were lost."""
    sampler.record_outcomes(groups, collectors.take_lost())


class SynchronousSource:
    """Collects exactly the requested groups with the newest weights (max_staleness = 0), repeatable bit for bit."""

    can_resample = True

    def __init__(self, collector: Collectors, sampler: TaskSampler, rng: random.Random) -> None:
        self.collector, self.sampler, self.rng = collector, sampler, rng

    async def take(self, n: int, label: str, draw: bool = True) -> list[Group]:
        groups = await self.collector.collect(self.sampler.sample(n, self.rng), label, draw=draw)
        _tell(self.sampler, groups, self.collector)
        return groups


class AsyncSource:
    """Keeps up to `max_staleness` iterations of groups in flight while the learner updates.

    Groups are used in the order in which they end. Since no more than that is dispatched beyond the current iteration,
    few groups come back too old; one that does (its devices were slow) is dropped, counted in the collector's
    `stale_groups`, and replaced. All screenshots are drawn, since any iteration may use a group.
    """

    can_resample = True

    def __init__(
        self,
        collector: Collector,
        sampler: TaskSampler,
        rng: random.Random,
        max_staleness: int,
        version: Callable[[], int],
    ) -> None:
        self.collector, self.sampler, self.rng = collector, sampler, rng
        self.max_staleness, self.version = max_staleness, version
        self._in_flight = 0

    async def take(self, n: int, label: str, draw: bool = True) -> list[Group]:
        groups: list[Group] = []
        missing = n
        rounds = 0
        while missing:
            await self._fill(missing + n * self.max_staleness, f"{label}-{rounds}")
            self._in_flight -= missing
            # Lost groups are not replaced here, since that would hide failing devices.
            ended = [group async for group in self.collector.ready(missing)]
            _tell(self.sampler, ended, self.collector)
            fresh = [group for group in ended if not self._too_old(group)]
            self.collector.counts["stale_groups"] += len(ended) - len(fresh)
            groups += fresh
            missing, rounds = len(ended) - len(fresh), rounds + 1
        return groups

    async def _fill(self, wanted: int, label: str) -> None:
        missing = wanted - self._in_flight
        for i, task in enumerate(self.sampler.sample(missing, self.rng) if missing > 0 else []):
            await self.collector.dispatch(task, f"{label}-{i:03d}")
            self._in_flight += 1

    def _too_old(self, group: Group) -> bool:
        oldest = min((s.completion.version for t in group.trajectories for s in t.steps), default=self.version())
        return self.version() - oldest > self.max_staleness


class PipelinedSource:
    """Collects the next iteration in worker processes while the learner updates on the current one.

    The workers' assignment is fixed right before the update begins, so a run is repeatable bit for bit. Trajectories
    are one version behind when they are used, except in the first iteration after a start. All screenshots are drawn.
    """

    can_resample = False

    def __init__(self, workers: RolloutWorkers, sampler: TaskSampler, rng: random.Random) -> None:
        self.workers, self.sampler, self.rng = workers, sampler, rng
        self._next: asyncio.Task[list[WorkerResult]] | None = None

    async def take(self, n: int, label: str, draw: bool = True) -> list[Group]:
        groups = self.workers.take(await (self._next or self._dispatch(n, label)))
        _tell(self.sampler, groups, self.workers)
        self._next = self._dispatch(n, f"{label}-ahead")
        # Let it start before the update does: it copies the weights first.
        await asyncio.sleep(0)
        return groups

    def _dispatch(self, n: int, label: str) -> asyncio.Task[list[WorkerResult]]:
        task = asyncio.create_task(self.workers.rollout(self.sampler.sample(n, self.rng), label))
        # The last one of a run is not awaited; that its workers were ended is not an error.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task


def make_group_source(
    run: Run, engine: Engine, sampler: TaskSampler, rng: random.Random, devices: Devices | Sequence[MobileEnv] | None
) -> tuple[Collectors, GroupSource]:
    """Makes the collector or rollout workers and a group source on top. `devices` are the suite's own, if any."""
    recipe, run_dir, staleness = run.recipe, run.run_dir, run.recipe.rollout.max_staleness
    if recipe.has_rollout_workers:
        # The settings have workers with no other engine.
        workers = RolloutWorkers(recipe, cast("LocalEngine", engine), run_dir)
        return workers, (PipelinedSource if staleness else SynchronousSource)(workers, sampler, rng)
    collector = make_collector(recipe, engine, devices or make_devices(recipe, run_dir), run.in_process)
    if staleness == 0:
        return collector, SynchronousSource(collector, sampler, rng)
    return collector, AsyncSource(collector, sampler, rng, staleness, lambda: engine.version)
