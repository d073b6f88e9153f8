"""Checks of the arguments of formulas and of saved states. Each raises ValueError naming the offending value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def same_length(**columns: Tensor) -> None:
    """Raises ValueError naming the first column that is not 1-D, not as long as the first one, or not finite."""
    first, leader = next(iter(columns.items()))
    for name, column in columns.items():
        if column.dim() != 1 or column.shape != leader.shape:
            raise ValueError(
                f"{name} has shape {tuple(column.shape)}, but {first} has {tuple(leader.shape)}: 1-D wanted"
            )
        if not torch.isfinite(column).all():
            raise ValueError(f"{name} holds NaN or infinity")


def in_unit_interval(**columns: Tensor) -> None:
    """Raises ValueError naming the first column with a value outside [0, 1]."""
    for name, column in columns.items():
        if ((column < 0) | (column > 1)).any():
            raise ValueError(f"{name} must lie in [0, 1], got {column.min().item():g} to {column.max().item():g}")


def number(name: str, value: Any) -> float:
    """Returns `value`. Raises ValueError unless it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r:.40}, not a finite number")
    return value


def count(name: str, value: Any) -> int:
    """Returns `value`. Raises ValueError unless it is an integer of at least 0."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} is {value!r:.40}, not a whole number of at least 0")
    return value


def finite(state: Mapping[str, Any]) -> None:
    """Raises ValueError unless all values are tensors without NaN or infinity."""
    for name, value in state.items():
        if not isinstance(value, Tensor) or not torch.isfinite(value).all():
            raise ValueError(f"{name} holds NaN, infinity, or no numbers at all")


def load_optimizer(optimizer: torch.optim.Optimizer, saved: Mapping[str, Any], stepped: bool) -> None:
    """Loads the state of an Adam optimizer, which has taken steps if `stepped`, and keeps the optimizer's settings."""
    own = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(dict(saved))
    if stepped and not optimizer.state:
        raise ValueError("the optimizer's state is empty")
    for group, settings in zip(optimizer.param_groups, own, strict=True):
        group.update(settings)
        for i, parameter in enumerate(group["params"]):
            moments = optimizer.state.get(parameter, {})  # empty without a gradient, as a vision tower without images
            if moments and not {"step", "exp_avg", "exp_avg_sq"} <= moments.keys():
                raise ValueError(f"the optimizer lacks moments of parameter {i}")
            finite(moments)
            for name, value in moments.items():
                if name != "step" and value.shape != parameter.shape:
                    raise ValueError(f"{name} of parameter {i} has another shape than the parameter")
