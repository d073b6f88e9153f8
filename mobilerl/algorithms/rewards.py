"""Rewards of whole trajectories and steps, before they become advantages."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def group_index(group: Tensor, **columns: Tensor) -> tuple[Tensor, int]:
    """Numbers the groups 0..n-1: `(index (B,), n)`, for arbitrary integer ids in any order.

    `columns` are the per-trajectory tensors that go with `group`. ValueError if one is not 1-D, of another length, or
    holds NaN or infinity.
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
    """Shortest-path reward adjustment (MobileRL): among successes, a shorter one earns more.

        R_i = r_i * (1 - alpha * max(0, T_i - T_min) / T_i),    T_min = min {T_j : j in i's group, r_j = 1}

    A failure (r_i = 0) stays 0; the shortest success of a group keeps its reward. alpha = 1 gives r_i * T_min / T_i.
    Only full successes set T_min: a part of a task takes fewer steps than all of it, and must not make its solution
    look long. A group without one keeps its rewards.

    Args:
        reward: (B,) >= 0, what the tasks' own checks returned.
        length: (B,) steps of each trajectory, >= 1.
        group: (B,) integer ids; T_min is taken within a group.
        alpha: strength in [0, 1]; 0 leaves the rewards alone.

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
    """Accumulating penalty for doing the same thing again (the rule of DistRL).

    The k-th immediate repeat of an action costs `min(k * per_repeat, cap)`; any other action starts again from 0.

    Args:
        action_keys: one episode's actions in order; equal keys mean equal actions.
        per_repeat, cap: sizes >= 0, in units of reward.

    Returns:
        one number <= 0 per action, to be added to the reward of its step.
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
    """DistRL's penalties of one episode's steps: for repeating an action, and for one that could not be carried out.

    `repetition_penalty(action_keys, per_repeat, repeat_cap)`, less `per_invalid` where an action is invalid. The sizes
    are not published; the released code has 0.4 per repeat without a cap, and 1 per invalid action (typing nothing
    counts as one); it compares with the last valid action only, so that an invalid one is never a repeat. Penalties are
    kept apart from the task's own rewards, so that labels made of returns know nothing of them.

    Returns:
        one number <= 0 per action, in units of reward.
    """
    if len(action_keys) != len(invalid):
        raise ValueError(f"{len(action_keys)} actions but {len(invalid)} marks of invalid ones")
    if per_invalid < 0:
        raise ValueError(f"per_invalid must not be negative, got {per_invalid}")
    repeats = repetition_penalty(action_keys, per_repeat, repeat_cap)
    return [repeat - per_invalid * bad for repeat, bad in zip(repeats, invalid, strict=True)]
