"""Checks of the tensors that formulas are given."""

from __future__ import annotations

import torch
from torch import Tensor


def same_length(**columns: Tensor) -> None:
    """ValueError that names the first column that is not 1-D, not as long as the first one, or not finite."""
    first, leader = next(iter(columns.items()))
    for name, column in columns.items():
        if column.dim() != 1 or column.shape != leader.shape:
            raise ValueError(
                f"{name} has shape {tuple(column.shape)}, but {first} has {tuple(leader.shape)}: 1-D wanted"
            )
        if not torch.isfinite(column).all():
            raise ValueError(f"{name} holds NaN or infinity")


def in_unit_interval(**columns: Tensor) -> None:
    """ValueError that names the first column with a value outside [0, 1]."""
    for name, column in columns.items():
        if ((column < 0) | (column > 1)).any():
            raise ValueError(f"{name} must lie in [0, 1], got {column.min().item():g} to {column.max().item():g}")
