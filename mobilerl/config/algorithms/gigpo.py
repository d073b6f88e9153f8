"""Settings of GiGPO."""

from __future__ import annotations

from typing import ClassVar, Literal

from mobilerl.config.algorithms.base import CurriculumSection, GroupSection
from mobilerl.config.types import Share, Weight


class GiGPOSection(GroupSection):
    """GiGPO (arXiv 2505.10978): advantages of whole episodes plus those of steps taken on the same screen."""

    implementation: ClassVar[str] = "mobilerl.algorithms.gigpo:GiGPO"
    type: Literal["gigpo"] = "gigpo"
    """Algorithm; each has settings of its own."""
    gamma: Share = 0.95
    """Discount per step of the returns that the step advantage compares (paper: 0.95)."""
    step_weight: Weight = 1.0
    """Weight omega of the step advantage (paper: 1)."""
    curriculum: CurriculumSection = CurriculumSection()
