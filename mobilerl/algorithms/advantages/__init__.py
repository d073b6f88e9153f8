"""Advantages from rewards and values: MobileRL's group-relative ones, DigiRL's filters, DistRL's returns."""

from mobilerl.algorithms.advantages.digirl import (
    doubly_robust_step,
    instruction_advantage,
    keep_steps,
    keep_trajectories,
)
from mobilerl.algorithms.advantages.group import group_relative, informative
from mobilerl.algorithms.advantages.hindsight import hindsight_advantage
from mobilerl.algorithms.advantages.returns import (
    distrl_reward,
    gae,
    keep_highest,
    monte_carlo_return,
    retrace_delta,
    retrace_target,
    td_error,
)

__all__ = [
    "distrl_reward",
    "doubly_robust_step",
    "gae",
    "group_relative",
    "hindsight_advantage",
    "informative",
    "instruction_advantage",
    "keep_highest",
    "keep_steps",
    "keep_trajectories",
    "monte_carlo_return",
    "retrace_delta",
    "retrace_target",
    "td_error",
]
