"""Where an iteration's groups come from: collected in turns with learning, or meanwhile, within a staleness bound."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable
from typing import Protocol

from envs.base import InfraError
from mobilerl.records import Group
from mobilerl.rollout.collector import Collector
from mobilerl.rollout.worker_process import Answer
from mobilerl.rollout.workers import RolloutWorkers
from mobilerl.train.tasks import TaskSampler

log = logging.getLogger(__name__)
Players = Collector | RolloutWorkers
PAUSE_S = 10.0
"""Between two collections of which the first gave nothing."""


class GroupSource(Protocol):
    async def take(self, n: int, label: str) -> list[Group]:
        """The next `n` groups (fewer when devices lost some). `label` names them; it must not repeat in a run."""


async def take_some(source: GroupSource, n: int, label: str, give_up_s: float, players: Players) -> list[Group]:
    """`source.take`, again while it gives nothing at all: an iteration without a group would age the replay and move
    the curriculum for nothing. Raises InfraError, with the last reason, when a collection has given nothing and those
    of the next `give_up_s` did not bring a single episode to its end."""
    tried, until, finished = 0, math.inf, players.counts["finished"]
    while True:
        groups = await source.take(n, f"{label}-again{tried}" if tried else label)
        if groups:
            return groups
        now = time.monotonic()
        if not tried or players.counts["finished"] > finished:
            until, finished = now + give_up_s, players.counts["finished"]
        if now >= until:
            raise InfraError(f"no episode could be used for {give_up_s:g} s; the last said: {players.last_fault}")
        log.warning("%s: every group was lost, and others are played; the last episode that came to nothing said: %s",
                    label, players.last_fault)  # fmt: skip
        await asyncio.sleep(min(PAUSE_S, until - now))
        tried += 1


def _tell(sampler: TaskSampler, groups: list[Group], players: Players) -> None:
    """Lets the sampler know which groups of a collection came back and which were lost."""
    lost, players.lost = players.lost, []
    sampler.ended(groups, lost)


class InTurns:
    """Collects exactly what is asked for, with the newest weights: max_staleness = 0, repeatable bit for bit."""

    def __init__(self, collector: Players, sampler: TaskSampler, rng: random.Random) -> None:
        self.collector, self.sampler, self.rng = collector, sampler, rng

    async def take(self, n: int, label: str) -> list[Group]:
        groups = await self.collector.collect(self.sampler.sample(n, self.rng), label)
        _tell(self.sampler, groups, self.collector)
        return groups


class Ahead:
    """Keeps up to `max_staleness` iterations' worth of groups in flight while the learner updates.

    Groups are used in the order in which they end. No more are dispatched than `max_staleness` iterations use beyond
    the current one, so few come back too old; one that does (its devices were slow) is dropped, counted under the
    collector's `stale_groups`, and replaced.
    """

    def __init__(self, collector: Collector, sampler: TaskSampler, rng: random.Random, max_staleness: int,
                 version: Callable[[], int]) -> None:  # fmt: skip
        self.collector, self.sampler, self.rng = collector, sampler, rng
        self.max_staleness, self.version = max_staleness, version
        self._in_flight = 0

    async def take(self, n: int, label: str) -> list[Group]:
        groups: list[Group] = []
        missing = n
        rounds = 0
        while missing:
            await self._fill(missing + n * self.max_staleness, f"{label}-{rounds}")
            self._in_flight -= missing
            # A group that was lost with its devices is not replaced here: it would hide that devices are dying.
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


class OneAhead:
    """Worker processes play one iteration while the one before it is learned from.

    What they play is decided when it is dispatched, right before learning begins: a run is repeatable bit for bit, and
    trajectories are one version behind when they are used. The first iteration after a start is not.
    """

    def __init__(self, workers: RolloutWorkers, sampler: TaskSampler, rng: random.Random) -> None:
        self.workers, self.sampler, self.rng = workers, sampler, rng
        self._next: asyncio.Task[list[Answer]] | None = None

    async def take(self, n: int, label: str) -> list[Group]:
        groups = self.workers.take(await (self._next or self._dispatch(n, label)))
        _tell(self.sampler, groups, self.workers)
        self._next = self._dispatch(n, f"{label}-ahead")
        # Let it start before learning does: the weights to play with are copied in its first moments.
        await asyncio.sleep(0)
        return groups

    def _dispatch(self, n: int, label: str) -> asyncio.Task[list[Answer]]:
        task = asyncio.create_task(self.workers.play(self.sampler.sample(n, self.rng), label))
        # The last one of a run is not waited for: that its workers were ended is no error then.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task
