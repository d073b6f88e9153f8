"""Settings of DistRL."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from mobilerl.config.algorithms.base import BufferedSection, BufferSection, ValueSection
from mobilerl.config.marks import OnlyWith
from mobilerl.config.types import Positive, Share, Weight


class PrioritizedReplaySection(BufferSection):
    """Distributed prioritized experience replay (DPER)."""

    capacity: Positive = 600
    """Capacity in trajectories."""
    alpha: Weight = 0.5
    """Exponent of the priorities: 0 samples uniformly, 1 in proportion to them."""
    priority_weights: tuple[Weight, Weight, Weight] = (1.0, 0.5, 0.5)
    """Weights of mean |delta|, mean ratio and mean entropy in a trajectory's priority."""

    @field_validator("priority_weights")
    @classmethod
    def _some_weight(cls, weights: tuple[float, float, float]) -> tuple[float, float, float]:
        if not any(weights):
            raise ValueError("at least one weight must be above 0")
        return weights


class DistRLSection(BufferedSection):
    """DistRL (arXiv 2410.14803): off-policy A-RIDE with Retrace and prioritized replay."""

    implementation: ClassVar[str] = "mobilerl.algorithms.distrl:DistRL"
    type: Literal["distrl"] = "distrl"
    """Algorithm; each has settings of its own."""
    updates: Positive = 10
    """Optimizer steps per iteration."""
    replay: PrioritizedReplaySection = PrioritizedReplaySection()
    gamma: Share = 0.9
    """Discount per step."""
    retrace: bool = True
    """Correct the targets of the state value for off-policy data with Retrace; false uses the label 1[G > 0]."""
    lam: Annotated[Share, OnlyWith({"algorithm.retrace": (True,)})] = 0.95
    """lambda of Retrace."""
    trajectory_top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 0.8
    """Fraction of trajectories to learn from, those with the highest trajectory values."""
    entropy_coef: Weight = 0.0
    """beta, the weight of the entropy bonus -log pi of the actions taken (eq. 1; released code: 0.05, off)."""
    critic: ValueSection = ValueSection()
