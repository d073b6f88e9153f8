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
    """Whether there is something to learn from it: not in a group whose shaped rewards are all equal."""


def assign_credit(groups: Sequence[Group], settings: CreditSection) -> list[Credited]:
    """One advantage per trajectory, by the recipe's choice."""
    trajectories = [t for g in groups for t in g.trajectories]
    if settings.type == "values":  # a critic gives every row of the replay its own
        return [Credited(t, 0.0, True) for t in trajectories]
    if settings.type == "success":
        return [Credited(t, float(t.success), t.success) for t in trajectories]
    return _group_relative(groups, trajectories, settings) if trajectories else []


def learned_from(credited: Sequence[Credited], settings: CreditSection) -> list[Credited]:
    """Those whose rows are to be in the batches. Constant groups may stay, with an advantage of 0, as the recipe says;
    what is not imitated may not, because rows count by how many they are."""
    constant = settings.type == "group_relative" and not settings.drop_constant_groups
    return [c for c in credited if c.informative or constant]


def _group_relative(
    groups: Sequence[Group], trajectories: Sequence[Trajectory], settings: CreditSection
) -> list[Credited]:
    """Of the (shortest-path adjusted) rewards."""
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
