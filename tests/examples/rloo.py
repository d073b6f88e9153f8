"""Example of a custom algorithm, REINFORCE with a leave-one-out baseline; see CONTRIBUTING.md.

In a package of your own this file is all that it takes, with the entry point

    [project.entry-points."mobilerl.algorithms"]
    rloo = "my_package.rloo:RlooSection"

In mobilerl itself the formulas are in `mobilerl/algorithms/`, and the section is in `mobilerl/config/algorithms/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor

from mobilerl.algorithms.base import Resources
from mobilerl.algorithms.grouped import GroupAlgorithm
from mobilerl.algorithms.rewards import group_index
from mobilerl.config.algorithms import CurriculumSection
from mobilerl.config.algorithms.base import GroupSection
from mobilerl.records import Group, MicroBatch


def leave_one_out(reward: Tensor, group: Tensor) -> Tensor:
    """Reward of a trajectory relative to the mean of the others in its group (Ahmadian et al. 2024).

        A_i = r_i - mean {r_j : j in i's group, j != i}

    Args:
        reward: (B,) of whole trajectories.
        group: (B,) integer ids. A trajectory alone in its group gets 0.

    Returns:
        (B,) in reward's dtype.
    """
    index, groups = group_index(group, reward=reward)
    total = reward.new_zeros(groups).index_add(0, index, reward)[index]
    others = torch.bincount(index, minlength=groups)[index].to(reward.dtype) - 1
    return torch.where(others > 0, reward - (total - reward) / others.clamp(min=1), torch.zeros_like(reward))


def policy_gradient(logp: Tensor, advantage: Tensor, weights: Tensor) -> Tensor:
    """-sum over tokens of weight * A * log pi. `logp` and `weights` are (R, L), `advantage` (R,)."""
    return -(weights * advantage.unsqueeze(1) * logp).sum()


def objective(micro: MicroBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """The objective for an engine. Metrics must be detached, and add up over micro-batches like the loss."""
    loss = policy_gradient(micro.logp, micro.advantage, micro.weights)
    return loss, {"entropy_estimate": -(micro.weights * micro.logp).sum().detach()}


class RlooSection(GroupSection):
    """REINFORCE with a leave-one-out baseline."""

    implementation: ClassVar[str] = f"{__name__}:Rloo"
    type: Literal["rloo"] = "rloo"
    """Algorithm; each has settings of its own."""
    curriculum: CurriculumSection = CurriculumSection()
    scale: float = 1.0
    """Factor on the advantages."""


class Rloo(GroupAlgorithm):
    def __init__(self, settings: RlooSection, resources: Resources) -> None:
        super().__init__(settings, resources)
        self.scale, self.objective = settings.scale, objective

    def group_advantages(self, group: Group) -> list[list[float]]:
        rewards = torch.tensor([t.reward for t in group.trajectories], dtype=torch.float64)
        advantages = self.scale * leave_one_out(rewards, torch.zeros(len(rewards), dtype=torch.long))
        return [[a] * len(t.steps) for t, a in zip(group.trajectories, advantages.tolist(), strict=True)]
