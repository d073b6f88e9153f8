"""Advantages relative to the other trajectories of a group (GRPO)."""

from __future__ import annotations

import torch
from torch import Tensor

from mobilerl.algorithms.rewards import group_index


def group_relative(reward: Tensor, group: Tensor, normalize_std: bool = True, eps: float = 1e-6) -> Tensor:
    """Group-relative advantage (GRPO), one value per trajectory, shared by all its steps and tokens.

        A_i = (R_i - mean_g) / (std_g + eps)

    with the population standard deviation (ddof = 0) of i's group. A zero-variance group, a group of one included,
    gives exactly 0: rounding errors of the mean, divided by eps, must not become a signal.

    Args:
        reward: (B,) shaped rewards.
        group: (B,) integer ids, in any order.
        normalize_std: whether to divide by the standard deviation; False is "Dr. GRPO".

    Returns:
        (B,) in reward's dtype (the default float dtype if reward holds integers).
    """
    index, groups = group_index(group, reward=reward)
    r = reward.double()
    size = r.new_zeros(groups).index_add(0, index, torch.ones_like(r))
    centered = r - (r.new_zeros(groups).index_add(0, index, r) / size)[index]
    if normalize_std:
        variance = r.new_zeros(groups).index_add(0, index, centered**2) / size
        centered = centered / (variance.sqrt()[index] + eps)
    advantage = torch.where(informative(reward, group), centered, torch.zeros_like(centered))
    return advantage.to(reward.dtype if reward.is_floating_point() else torch.get_default_dtype())


def informative(value: Tensor, group: Tensor) -> Tensor:
    """(B,) bool: False for members of zero-variance groups, which include groups of one.

    `value` is (B,): shaped rewards or the group-relative advantages computed from them, with the same result. The
    other trajectories have advantage 0 and need no forward pass.
    """
    index, groups = group_index(group, value=value)
    v = value.double()
    lowest = v.new_full((groups,), torch.inf).scatter_reduce(0, index, v, "amin")
    highest = v.new_full((groups,), -torch.inf).scatter_reduce(0, index, v, "amax")
    return (highest > lowest)[index]
