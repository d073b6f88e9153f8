"""Settings of AdaGRPO (MobileRL)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mobilerl.config.algorithms.base import CurriculumSection, GroupSection
from mobilerl.config.types import Positive, Section


class AdaptiveReplaySection(Section):
    """Adaptive positive replay (AdaPR): the best successes are learned from again."""

    capacity: Positive = 512
    """Capacity in trajectories."""
    kappa: Positive = 32
    """Best successes of an iteration that enter the buffer."""
    gamma: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.25
    """Maximum share of replayed samples in a mini-batch; 0 turns replay off."""
    max_age: Positive | None = 20
    """Iterations after which a trajectory leaves the buffer; null keeps it until it is evicted."""


class FailureCurriculumSection(CurriculumSection):
    """Which tasks are sampled; by default, failure curriculum filtering."""

    type: Literal["fcf", "uniform", "instruction_value"] = "fcf"
    """Curriculum: `fcf` is failure curriculum filtering (MobileRL); `instruction_value` prefers tasks that are solved
    about half of the time (after DigiRL's instruction filter)."""


class AdaGRPOSection(GroupSection):
    """AdaGRPO (MobileRL): GRPO with shortest-path adjustment, adaptive positive replay and failure curriculum."""

    implementation: ClassVar[str] = "mobilerl.algorithms.adagrpo:AdaGRPO"
    type: Literal["adagrpo"] = "adagrpo"
    """Algorithm; each has settings of its own."""
    spa: bool = True
    """Shortest-path adjustment of the reward."""
    replay: AdaptiveReplaySection = AdaptiveReplaySection()
    curriculum: FailureCurriculumSection = FailureCurriculumSection()
