"""Filtered behavior cloning: maximum likelihood on the successes among the most recent trajectories."""

from __future__ import annotations

import random
from collections.abc import Sequence

from mobilerl.algorithms.base import Resources
from mobilerl.algorithms.buffered import BufferedAlgorithm
from mobilerl.algorithms.objectives import imitation
from mobilerl.algorithms.replay import CircularReplay
from mobilerl.config.algorithms import FilteredBCSection
from mobilerl.records import Group, Trajectory


class FilteredBC(BufferedAlgorithm):
    reads_screenshots = False

    def __init__(self, settings: FilteredBCSection, resources: Resources) -> None:
        super().__init__(settings, resources, CircularReplay(settings.replay.capacity))
        self.objective = imitation

    def informative(self, group: Group) -> list[bool]:
        return [t.success for t in group.trajectories]

    def evaluate(self, trajectories: Sequence[Trajectory], rng: random.Random, offline: bool) -> dict[str, float]:
        self._advantages = {t.id: [1.0] * len(t.steps) for t in trajectories if t.success}
        return {}
