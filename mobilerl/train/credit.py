"""From groups to advantages: the recipe's choice of `mobilerl.algorithms` functions, per trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mobilerl.algorithms.advantages import group_relative, informative
from mobilerl.algorithms.rewards import shortest_path_adjustment
from mobilerl.config import CreditSection
from mobilerl.records import Group, Trajectory


@dataclass(frozen=True, slots=True)
class Credited:
    """A trajectory with its advantage, shared by all of its rows."""

    trajectory: Trajectory
    advantage: float
    informative: bool
    """False in a group whose shaped rewards are all equal."""


def assign_credit(groups: Sequence[Group], settings: CreditSection) -> list[Credited]:
    """Group-relative advantages of the (shortest-path adjusted) rewards: one value per trajectory."""
    trajectories = [t for g in groups for t in g.trajectories]
    if not trajectories:
        return []
    group = torch.tensor([i for i, g in enumerate(groups) for _ in g.trajectories])
    reward = torch.tensor([t.reward for t in trajectories], dtype=torch.float64)
    if settings.spa:
        length = torch.tensor([len(t.steps) for t in trajectories])
        reward = shortest_path_adjustment(reward, length, group, settings.spa_alpha)
    advantage = group_relative(reward, group, settings.normalize_std)
    useful = informative(reward, group)
    return [
        Credited(t, float(a), bool(u))
        for t, a, u in zip(trajectories, advantage.tolist(), useful.tolist(), strict=True)
    ]
