"""Example of a custom algorithm, REINFORCE with a leave-one-out baseline; see CONTRIBUTING.md.

The formulas belong in `mobilerl/algorithms/advantages/` and `mobilerl/algorithms/losses/`, `objective` into
`mobilerl/algorithms/objectives.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mobilerl.algorithms.rewards import group_index
from mobilerl.records import MicroBatch


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
