"""AdaGRPO (MobileRL): group-relative advantages of shortest-path adjusted rewards, and replay of the best successes.

The third part, failure curriculum filtering, chooses the tasks: `curriculum.failure`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from mobilerl.algorithms.advantages import group_relative
from mobilerl.algorithms.base import AlgorithmState, Resources
from mobilerl.algorithms.grouped import GroupAlgorithm, StepAdvantages
from mobilerl.algorithms.replay import AdaptivePositiveReplay
from mobilerl.algorithms.rewards import shortest_path_adjustment
from mobilerl.config.algorithms import AdaGRPOSection
from mobilerl.records import Group


class AdaGRPO(GroupAlgorithm):
    settings: AdaGRPOSection

    def __init__(self, settings: AdaGRPOSection, resources: Resources) -> None:
        super().__init__(settings, resources)
        replay = settings.replay
        if replay.gamma > 0:
            self.replay = AdaptivePositiveReplay(replay.capacity, replay.kappa, replay.gamma, replay.max_age)

    def group_advantages(self, group: Group) -> list[StepAdvantages]:
        """Every step has the advantage of its trajectory."""
        lengths = [len(t.steps) for t in group.trajectories]
        index = torch.zeros(len(lengths), dtype=torch.long)
        reward = torch.tensor([t.reward for t in group.trajectories], dtype=torch.float64)
        if self.settings.spa:
            reward = shortest_path_adjustment(reward, torch.tensor(lengths), index)
        advantage = group_relative(reward, index, self.settings.normalize_std)
        return [[a] * n for a, n in zip(advantage.tolist(), lengths, strict=True)]

    def add(self, groups: Sequence[Group], iteration: int) -> None:
        super().add(groups, iteration)
        if self.replay is not None:
            trajectories = [t for g in groups for t in g.trajectories]
            self.replay.insert(trajectories, [self._advantages[t.id][0] for t in trajectories], iteration)

    def metrics(self) -> dict[str, float]:
        return {"replay/size": len(self.replay) if self.replay is not None else 0}

    def advantages(self) -> Mapping[str, float | Sequence[float]]:
        """One per trajectory."""
        return {name: steps[0] for name, steps in self._advantages.items()}

    def state_dict(self) -> AlgorithmState:
        return AlgorithmState(replay=None if self.replay is None else self.replay.state_dict())

    def load_state_dict(self, state: AlgorithmState) -> None:
        if self.replay is not None and state.replay is not None:
            self.replay.load_state_dict(state.replay)
