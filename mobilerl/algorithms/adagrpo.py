"""AdaGRPO (MobileRL): group-relative advantages from shortest-path adjusted rewards, and replay of rare successes.

`value_baseline` replaces the group's mean by a value function. The third part, failure curriculum filtering, selects
the tasks: see `curriculum.failure`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import torch
from torch import Tensor

from mobilerl.algorithms.advantages import group_relative
from mobilerl.algorithms.base import AlgorithmState, Resources
from mobilerl.algorithms.baseline import ValueBaseline
from mobilerl.algorithms.gigpo import group_states, state_advantages
from mobilerl.algorithms.grouped import GroupAlgorithm, StepAdvantages
from mobilerl.algorithms.hindsight import Hindsight
from mobilerl.algorithms.objectives import clipped
from mobilerl.algorithms.replay import AdaptivePositiveReplay
from mobilerl.algorithms.rewards import shortest_path_adjustment
from mobilerl.config.algorithms import AdaGRPOSection
from mobilerl.records import Group, TrainingSample

STEP_DISCOUNT = 0.95
"""Discount of the step returns that GiGPO's advantages compare."""


class AdaGRPO(GroupAlgorithm):
    settings: AdaGRPOSection

    def __init__(self, settings: AdaGRPOSection, resources: Resources) -> None:
        super().__init__(settings, resources)
        replay = settings.replay
        if replay.fraction > 0:
            self.replay = AdaptivePositiveReplay(
                replay.capacity,
                replay.kappa,
                replay.fraction,
                replay.max_age,
                replay.order,
                settings.max_response_prob,
                settings.learn_failed_steps,
            )
        self._baseline: ValueBaseline | None = None
        if settings.value_baseline:
            self._baseline = ValueBaseline(resources, settings.critic, settings.lam)
            self.reads_screenshots = True
        self._value_metrics: dict[str, float] = {}
        self._hindsight = Hindsight(resources, settings.hindsight) if settings.hindsight else None
        self._shaped_rewards: dict[str, float] = {}
        self.objective = clipped(settings.loss)

    def group_advantages(self, group: Group) -> list[StepAdvantages]:
        """Gives every step its trajectory's advantage, or its own if there is a value function to compare it with, plus
        `step_weight` times GiGPO's step advantage."""
        lengths = [len(t.steps) for t in group.trajectories]
        index = torch.zeros(len(lengths), dtype=torch.long)
        raw, reward = _rewards(group), self._shape_rewards(group)
        normalize_std = self.settings.normalize_std
        if group.trajectories and self._baseline is not None and self._baseline.ready:
            steps = self._baseline.advantages(group.trajectories, reward)
        else:
            advantage = group_relative(reward, index, normalize_std)
            steps = advantage.repeat_interleave(torch.tensor(lengths, dtype=torch.long))
        if self.settings.step_weight > 0:
            states = group_states(group)
            steps += self.settings.step_weight * state_advantages(raw, *states, STEP_DISCOUNT, normalize_std)
        return [part.tolist() for part in steps.split(lengths)]

    def final_advantages(self, groups: Sequence[Group]) -> list[list[StepAdvantages]]:
        advantages = super().final_advantages(groups)
        return advantages if self._hindsight is None else self._hindsight(groups, advantages)

    def _shape_rewards(self, group: Group) -> Tensor:
        """Rewards of a group after the shortest-path adjustment, if it is on."""
        if not self.settings.spa:
            return _rewards(group)
        lengths = torch.tensor([len(t.steps) for t in group.trajectories], dtype=torch.long)
        return shortest_path_adjustment(_rewards(group), lengths, torch.zeros_like(lengths), float(self.settings.spa))

    def add(self, groups: Sequence[Group], iteration: int) -> None:
        super().add(groups, iteration)
        if self.settings.spa:
            pairs = (zip(g.trajectories, self._shape_rewards(g).tolist(), strict=True) for g in groups)
            self._shaped_rewards = {t.id: reward for group in pairs for t, reward in group}
        trajectories = [t for g in groups for t in g.trajectories]
        if self._baseline is not None and trajectories:
            rewards = torch.cat([self._shape_rewards(g) for g in groups])
            self._value_metrics = self._baseline.fit(trajectories, rewards, iteration)
        if self.replay is None:
            return
        rarities = [1.0 - fmean(t.success for t in g.trajectories) for g in groups for _ in g.trajectories]
        advantages = [fmean(self._advantages[t.id]) for t in trajectories]
        self.replay.insert(trajectories, advantages, iteration, rarities)

    def prepare_batch(self, batch: list[TrainingSample]) -> list[TrainingSample]:
        if self.settings.replay.ratio != "current":
            return batch
        fresh = [s for s in batch if not s.replayed]
        return fresh + self.rescore([s for s in batch if s.replayed])

    def shaped_rewards(self) -> Mapping[str, float]:
        return self._shaped_rewards

    def metrics(self) -> dict[str, float]:
        size = len(self.replay) if self.replay is not None else 0
        hindsight = self._hindsight.metrics if self._hindsight is not None else {}
        return {"replay/size": size, **self._value_metrics, **hindsight}

    def state_dict(self) -> AlgorithmState:
        tensors = {} if self._baseline is None else self._baseline.state_dict()
        return AlgorithmState(None if self.replay is None else self.replay.state_dict(), tensors)

    def load_state_dict(self, state: AlgorithmState) -> None:
        if self.replay is not None and state.replay is not None:
            self.replay.load_state_dict(state.replay)
        if self._baseline is not None:
            self._baseline.load_state_dict(state.tensors)


def _rewards(group: Group) -> Tensor:
    return torch.tensor([t.reward for t in group.trajectories], dtype=torch.float64)
