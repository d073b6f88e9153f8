"""Shaping of trajectory and step rewards before advantages are computed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def group_index(group: Tensor, **columns: Tensor) -> tuple[Tensor, int]:
    """Numbers the groups 0..n-1 and returns `(index (B,), n)`, for arbitrary integer ids in any order.

    `columns` are the per-trajectory tensors that go with `group`. Raises ValueError if one is not 1-D, has another
    length, or holds NaN or infinity.
    """
    if group.dim() != 1 or group.is_floating_point():
        raise ValueError(f"group must be a 1-D tensor of integers, got {group.dtype} {tuple(group.shape)}")
    for name, column in columns.items():
        if column.shape != group.shape:
            raise ValueError(f"{name} has shape {tuple(column.shape)}, but group has {tuple(group.shape)}")
        if not torch.isfinite(column).all():
            raise ValueError(f"{name} holds NaN or infinity")
    ids, index = torch.unique(group, return_inverse=True)
    return index, ids.numel()


def shortest_path_adjustment(reward: Tensor, length: Tensor, group: Tensor, alpha: float = 1.0) -> Tensor:
    """Shortest-path reward adjustment (MobileRL): shorter successes earn more.

        R_i = r_i * (1 - alpha * max(0, T_i - T_min) / T_i),    T_min = min {T_j : j in i's group, r_j = 1}

    A failure (r_i = 0) stays 0; the shortest success of a group keeps its reward. alpha = 1 gives r_i * T_min / T_i.
    Only full successes set T_min: a partial solution takes fewer steps than a complete one, and must not make that look
    long. A group without a full success keeps its rewards.

    Args:
        reward: (B,) task rewards, >= 0.
        length: (B,) number of steps of each trajectory, >= 1.
        group: (B,) integer ids; T_min is taken within a group.
        alpha: strength in [0, 1]; 0 leaves the rewards unchanged.

    Returns:
        (B,) in reward's dtype (the default float dtype if reward holds integers).
    """
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha must be in [0, 1], got {alpha}")
    index, groups = group_index(group, reward=reward, length=length)
    if (length < 1).any():
        raise ValueError(f"length must be at least 1 step, got {length.min().item()}")
    if (reward < 0).any():
        raise ValueError(f"reward must not be negative, got {reward.min().item()}")

    r = reward if reward.is_floating_point() else reward.to(torch.get_default_dtype())
    steps = length.to(r.dtype)
    full = r >= 1
    shortest = r.new_full((groups,), torch.inf).scatter_reduce(0, index[full], steps[full], "amin")
    return r * (1 - alpha * (steps - shortest[index]).clamp(min=0) / steps)


def repetition_penalty(action_keys: Sequence[str], per_repeat: float, cap: float) -> list[float]:
    """Cumulative penalty for repeating an action (DistRL).

    The k-th immediate repeat of an action costs `min(k * per_repeat, cap)`; a different action resets k to 0.

    Args:
        action_keys: the actions of one episode in order; equal keys mean equal actions.
        per_repeat, cap: penalty per repeat and maximum penalty, >= 0, in units of reward.

    Returns:
        One number <= 0 per action, to be added to the reward of its step.
    """
    if per_repeat < 0 or cap < 0:
        raise ValueError(f"per_repeat and cap must not be negative, got {per_repeat} and {cap}")
    penalties: list[float] = []
    repeats = 0
    for i, key in enumerate(action_keys):
        repeats = repeats + 1 if i and key == action_keys[i - 1] else 0
        penalties.append(0.0 - min(repeats * per_repeat, cap))
    return penalties


def step_penalties(
    action_keys: Sequence[str], invalid: Sequence[bool], per_repeat: float, repeat_cap: float, per_invalid: float
) -> list[float]:
    """DistRL's penalties for the steps of one episode: for repeated actions and for invalid ones.

    They are `repetition_penalty(action_keys, per_repeat, repeat_cap)`, minus `per_invalid` where an action is invalid.
    The paper publishes no values; the released code uses 0.4 per repeat without a cap and 1 per invalid action (typing
    nothing counts as one), and compares only with the last valid action, so that an invalid one is never a repeat.
    Penalties are kept separate from task rewards, so that labels computed from returns do not include them.

    Returns:
        One number <= 0 per action, in units of reward.
    """
    if len(action_keys) != len(invalid):
        raise ValueError(f"{len(action_keys)} actions but {len(invalid)} marks of invalid ones")
    if per_invalid < 0:
        raise ValueError(f"per_invalid must not be negative, got {per_invalid}")
    repeats = repetition_penalty(action_keys, per_repeat, repeat_cap)
    return [repeat - per_invalid * bad for repeat, bad in zip(repeats, invalid, strict=True)]
