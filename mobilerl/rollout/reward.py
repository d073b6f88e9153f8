"""Checks of the reward that an environment's own check, or a scorer, gives."""

from __future__ import annotations

import inspect
import math
import reprlib
from numbers import Complex, Real
from typing import Any

from mobilerl.config import ConfigError
from mobilerl.envs.base import Observation
from mobilerl.judge.scorer import Scorer
from mobilerl.records import Trajectory

ROUNDING = 1e-6
"""How far a reward may be outside [0, 1], as a sum of weights in single precision is; it is clipped."""


async def compute_reward(scorer: Scorer, trajectory: Trajectory, final: Observation | None) -> float:
    """The scorer's reward; `score` need not be a coroutine. Raises ConfigError if it is no reward."""
    said = scorer.score(trajectory, final)
    name = getattr(scorer, "name", "") or f"the scorer {type(scorer).__name__}"
    return check_reward(await said if inspect.isawaitable(said) else said, name, trajectory.task.id)


def check_reward(value: Any, source: str, task_id: str) -> float:
    """The reward `value` as a float, whatever its type. Raises ConfigError unless it is a number in [0, 1]."""
    reward = _number(value)
    if not -ROUNDING <= reward <= 1 + ROUNDING:  # NaN neither
        raise ConfigError(
            f"{source} gave {reprlib.repr(value)} as the reward of the task {task_id}: a reward is a number from 0 to 1"
        )
    return min(max(reward, 0.0), 1.0)


def _number(value: Any) -> float:
    """NaN for anything that is not a real number. Texts are none; bools and numbers of numpy and torch are some."""
    if not hasattr(type(value), "__float__") or isinstance(value, Complex) and not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # such as a tensor of several numbers
        return math.nan
