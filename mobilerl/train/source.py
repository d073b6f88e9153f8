"""Where an iteration's groups come from: collected in turns with learning, or meanwhile, within a staleness bound."""

from __future__ import annotations

import random
from typing import Protocol

from mobilerl.records import Group
from mobilerl.rollout.collector import Collector
from mobilerl.train.tasks import TaskSampler


class GroupSource(Protocol):
    async def take(self, n: int, label: str) -> list[Group]:
        """The next `n` groups (fewer when devices lost some). `label` names them; it must not repeat in a run."""


class InTurns:
    """Collects exactly what is asked for, with the newest weights: max_staleness = 0, repeatable bit for bit."""

    def __init__(self, collector: Collector, sampler: TaskSampler, rng: random.Random) -> None:
        self.collector, self.sampler, self.rng = collector, sampler, rng

    async def take(self, n: int, label: str) -> list[Group]:
        return await self.collector.collect(self.sampler.sample(n, self.rng), label)


class Ahead:
    """Keeps up to `max_staleness` iterations' worth of groups in flight while the learner updates.

    Groups are used in the order in which they end, and no more are dispatched than will be used within
    `max_staleness` further iterations, so that a row is never more than that many versions old.
    """

    def __init__(self, collector: Collector, sampler: TaskSampler, rng: random.Random, max_staleness: int) -> None:
        self.collector, self.sampler, self.rng = collector, sampler, rng
        self.max_staleness = max_staleness
        self._in_flight = 0

    async def take(self, n: int, label: str) -> list[Group]:
        missing = n * (1 + self.max_staleness) - self._in_flight
        for i, task in enumerate(self.sampler.sample(missing, self.rng) if missing > 0 else []):
            await self.collector.dispatch(task, f"{label}-{i:03d}")
            self._in_flight += 1
        groups = [g async for g in self.collector.ready(n)]
        self._in_flight -= n
        return groups
