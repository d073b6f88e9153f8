"""Sections that the settings of algorithms are composed of."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from mobilerl.config.marks import ANY, NotWith, OnlyWith, Resumable
from mobilerl.config.optimizer import OptimizerSection
from mobilerl.config.types import Count, Positive, Rate, Section, Share, Weight

FCF = OnlyWith({"algorithm.curriculum.type": ("fcf",)})
LEARNABLE = OnlyWith({"algorithm.curriculum.type": ("learnable",)})
IN_EPOCHS = NotWith("algorithm.curriculum.type", ("learnable",))
CurriculumType = Literal["fcf", "uniform", "instruction_value", "learnable"]
RECOMPUTED = OnlyWith({"algorithm.loss.recompute_old_logprobs": (True,)})
MASKED = OnlyWith({"algorithm.loss.mismatch_mask": ANY})


class CurriculumSection(Section):
    """Which tasks are sampled."""

    type: CurriculumType = "uniform"
    """Curriculum: `fcf` is failure curriculum filtering (MobileRL); `instruction_value` prefers tasks that are solved
    about half of the time (after DigiRL's instruction filter); `learnable` samples tasks by p (1 - p), with p the
    running success rate."""
    key: Literal["template", "task"] = "template"
    """What is sampled and filtered: a `template` with all its instances, or each `task` (instance) by itself."""
    watch: Annotated[float, Field(gt=0.0, lt=1.0), LEARNABLE] = 0.05
    """Fraction of the samples for tasks that are solved nearly always or nearly never."""
    epoch_groups: Annotated[Positive | None, IN_EPOCHS] = None
    """Groups per curriculum epoch; null for twice the number of templates (or tasks, see `key`)."""
    patience: Annotated[Positive, FCF] = 2
    """Number of consecutive failed epochs before a task enters cooldown (MobileRL: 2)."""
    cooldown: Annotated[Count, FCF] = 3
    """Number of epochs with sampling weight exp(-failed epochs) before a task is removed (MobileRL: 3)."""
    revisit_every: Annotated[Positive | None, FCF] = None
    """Epochs between probes of a removed task; null removes it for good (MobileRL)."""
    history: Annotated[str, FCF, Resumable(from_checkpoint=True)] = ""
    """Run directory of an earlier run, whose history of failures this one starts from (MobileRL); empty for none."""


class ClippedLossSection(Section):
    """Clipped policy loss of group-relative algorithms."""

    clip_low: Share = 0.2
    """Clip range below a ratio of 1 (GRPO, DAPO: 0.2)."""
    clip_high: Weight = 0.28
    """Clip range above a ratio of 1; wider than `clip_low` is clip-higher (DAPO: 0.28)."""
    dual_clip: Annotated[float, Field(gt=1.0)] | None = 3.0
    """Cap of the ratio for negative advantages (dual-clip PPO: 3); null for none."""
    kl_coef: Weight = 0.0
    """Coefficient of the KL divergence (k3 estimate) from the initial policy."""
    tis_cap: Rate | None = 2.0
    """Cap of the truncated importance weight between trainer and rollout; null turns the correction off."""
    mismatch_mask: Annotated[Literal["token", "sequence"] | None, RECOMPUTED] = None
    """Mask tokens (`token`, as in IcePop) or whole responses (`sequence`, as in TRL) whose ratio of trainer to rollout
    is outside `mismatch_limits`; null for no mask."""
    mismatch_limits: Annotated[tuple[float, float], MASKED] = (0.5, 5.0)
    """Lowest and highest ratio that is not masked (IcePop: 0.5 and 5)."""
    ratio_mask: tuple[float, float] | None = None
    """Mask tokens whose ratio of the policy being trained to the rollout is below the first or above the second of
    these limits, on both sides whatever the advantage (SAO); null for no mask."""
    recompute_old_logprobs: bool = True
    """Clip against log-probabilities recomputed by the trainer instead of those of the rollout."""
    loss_aggregation: Literal["token-mean", "sample-mean", "trajectory-mean"] = "trajectory-mean"
    """Loss aggregation: whether tokens, samples or trajectories have equal weight in a mini-batch."""

    @field_validator("mismatch_limits", "ratio_mask")
    @classmethod
    def _around_one(cls, limits: tuple[float, float] | None) -> tuple[float, float] | None:
        if limits is not None and not 0.0 <= limits[0] <= 1.0 <= limits[1]:
            raise ValueError("give two numbers around 1, the lower one at least 0")
        return limits


class ValueSection(Section):
    """Value functions on frozen features of the initial policy."""

    updates: Positive = 20
    """Optimizer steps of each value function per iteration."""


class OfflineSection(Section):
    """Training on stored trajectories before the first iteration."""

    trajectories: Annotated[str, Resumable(from_checkpoint=True)] = ""
    """Run directory with the trajectories; empty for none."""


class BufferSection(Section):
    """Buffer of the newest trajectories, successes and failures."""

    capacity: Positive = 2000
    """Capacity in trajectories."""


class AlgorithmSection(OptimizerSection):
    """Base class of the sections of algorithms; `type` names the algorithm."""

    implementation: ClassVar[str]
    """`module:class` of the algorithm."""
    mini_batch_size: Positive = 128
    """Samples per optimizer step."""
    group_size: Positive
    curriculum: CurriculumSection

    @property
    def uses_reference(self) -> bool:
        """Whether the loss needs log-probabilities of the initial policy."""
        return False

    @property
    def uses_start_model(self) -> bool:
        """Whether the initial weights are needed during the whole run, as a reference or for value functions."""
        return self.uses_reference or any(isinstance(value, ValueSection) for _, value in self)

    @property
    def stored_trajectories(self) -> str:
        """Run directory to learn from before the first iteration; empty for none."""
        return ""


class GroupSection(AlgorithmSection):
    """Common settings of algorithms that compare the episodes of a task with each other."""

    group_size: Annotated[int, Field(ge=2)] = 8
    """Episodes per task and iteration."""
    epochs: Positive = 1
    """Epochs over the samples of an iteration."""
    normalize_std: bool = True
    """Divide advantages by the standard deviation of their group (GRPO)."""
    dynamic_sampling: bool = True
    """Replace zero-variance groups by others (DAPO's dynamic sampling). If false, only a KL term learns from them."""
    learn_failed_steps: bool = False
    """Also learn from steps with a positive advantage whose action could not be parsed or was not carried out."""
    max_response_prob: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Skip steps whose response had a probability above this value, since their gradient is negligible; 1 keeps all."""
    loss: ClippedLossSection = ClippedLossSection()

    @property
    def uses_reference(self) -> bool:
        return self.loss.kl_coef > 0


class BufferedSection(AlgorithmSection):
    """Common settings of algorithms that draw all mini-batches from a buffer."""

    group_size: Positive = 1
    """Episodes per task and iteration."""
    updates: Positive = 20
    """Optimizer steps per iteration."""
    replay: BufferSection = BufferSection()
    curriculum: CurriculumSection = CurriculumSection()
    offline: OfflineSection = OfflineSection()

    @property
    def stored_trajectories(self) -> str:
        return self.offline.trajectories
