"""Settings of AdaGRPO (MobileRL)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from mobilerl.config.algorithms.base import CurriculumSection, CurriculumType, GroupSection, ValueSection
from mobilerl.config.marks import ANY, OnlyWith
from mobilerl.config.types import Positive, Section, Share, Weight

REPLAY = OnlyWith({"algorithm.replay.fraction": ANY})
BASELINE = OnlyWith({"algorithm.value_baseline": (True,)})


class AdaptiveReplaySection(Section):
    """Adaptive positive replay (AdaPR) of rare successes."""

    capacity: Annotated[Positive, REPLAY] = 512
    """Capacity in trajectories."""
    kappa: Annotated[Positive, REPLAY] = 32
    """Maximum number of successes, the rarest ones, that enter the buffer per iteration."""
    fraction: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.25
    """Maximum fraction of replayed samples in a mini-batch, and of their weight; 0 turns replay off."""
    order: Annotated[Literal["rarity", "advantage"], REPLAY] = "rarity"
    """`rarity` prefers successes of tasks that rarely succeed; `advantage` always draws those of the highest advantage
    (MobileRL)."""
    ratio: Annotated[Literal["behavior", "current"], REPLAY] = "current"
    """Policy that the ratio of a replayed sample is taken against: that of the weights that sampled it (`behavior`), or
    the `current` one."""
    max_age: Annotated[Positive | None, REPLAY] = 20
    """Iterations after which a trajectory leaves the buffer; null keeps it until it is evicted."""


class FailureCurriculumSection(CurriculumSection):
    """Which tasks are sampled; by default, failure curriculum filtering."""

    type: CurriculumType = "fcf"
    """Curriculum: `fcf` is failure curriculum filtering (MobileRL); `instruction_value` prefers tasks that are solved
    about half of the time (after DigiRL's instruction filter); `learnable` samples tasks by p (1 - p), with p the
    running success rate."""


class AdaGRPOSection(GroupSection):
    """AdaGRPO (MobileRL): GRPO with shortest-path adjustment, adaptive positive replay and failure curriculum."""

    implementation: ClassVar[str] = "mobilerl.algorithms.adagrpo:AdaGRPO"
    type: Literal["adagrpo"] = "adagrpo"
    """Algorithm; each has settings of its own."""
    group_size: Positive = 8
    """Episodes per task and iteration; 1 needs `value_baseline`."""
    normalize_std: bool = False
    """Divide advantages by the standard deviation of their group (GRPO). After shortest-path adjustment, this would
    turn one extra step among successes into a large negative advantage."""
    spa: Share | bool = True
    """Adjust rewards by the shortest path of the group; a number is the strength alpha, which is 1 for true."""
    step_weight: Weight = 0.0
    """Weight of GiGPO's step advantage, which is added to that of the trajectory; 0 for none."""
    hindsight: Weight = 0.0
    """Strength beta with which steps are gated by their likelihood after the policy was told a success of the group
    (SDAR, HCAPO), which takes another forward pass; 0 for none."""
    value_baseline: bool = False
    """Compare each step with a value function (SAO) in place of comparing its trajectory with the group."""
    lam: Annotated[Share, BASELINE] = 1.0
    """lambda of the step advantage (GAE): 1 is the reward minus the value of the state, 0 the one-step estimate."""
    critic: Annotated[ValueSection, BASELINE] = ValueSection()
    replay: AdaptiveReplaySection = AdaptiveReplaySection()
    curriculum: FailureCurriculumSection = FailureCurriculumSection()

    @property
    def uses_start_model(self) -> bool:
        return self.uses_reference or self.value_baseline

    @model_validator(mode="after")
    def _comparable(self) -> AdaGRPOSection:
        if self.group_size < 2 and not self.value_baseline:
            raise ValueError(
                "algorithm.group_size = 1 leaves nothing to compare an episode with: set it to 2 or more, or "
                "algorithm.value_baseline = true"
            )
        return self
