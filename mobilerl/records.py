"""Records of rollouts and training: Step, Trajectory, Group and TrainingSample.

Screenshots are PNG bytes shared by reference: the same `bytes` object is the observation of one step and an image of
the prompts that show it, so a trajectory holds each screen once. On disk they become `screens/<sha256>.png`.
`mobilerl.trajectory_files` reads and writes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from envs.base import Action, Invalid, Observation, Task

if TYPE_CHECKING:
    from torch import Tensor


class Status(StrEnum):
    """How an episode ended. Only `INFRA_ERROR` says nothing about the policy."""

    FINISHED = "finished"
    """The agent said finish."""
    TRUNCATED = "truncated"
    """The step budget ran out."""
    INVALID = "invalid"
    """Too many unreadable actions in a row."""
    INFRA_ERROR = "infra_error"
    """A device failed: retried elsewhere, never given to an advantage."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One model call, token-exact. `logprobs` are of the sampled tokens under the distribution they were drawn from."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    version: int
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    observation: Observation
    completion: Completion
    images: tuple[bytes, ...] = field(repr=False)
    """PNGs in the order of their placeholders in the prompt."""
    thought: str
    action: Action
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase: `policy`, `act`, `settle`, `observe`."""
    note: str = ""
    """Why the device did not carry the action out; "" when it did. The prompts of later steps say it."""

    @property
    def failed(self) -> bool:
        """Whether the action was not understood, or not carried out."""
        return isinstance(self.action, Invalid) or bool(self.note)


@dataclass(frozen=True, slots=True)
class Trajectory:
    id: str
    task: Task
    steps: tuple[Step, ...]
    reward: float
    """What the task's own check returned, in [0, 1], before any shaping."""
    status: Status
    device_id: str
    error: str = ""
    wall_s: float = 0.0

    @property
    def success(self) -> bool:
        return self.reward > 0.5

    def samples(self, advantage: float | Sequence[float] = 0.0, replayed: bool = False) -> list[TrainingSample]:
        """One training sample per model call, in step order. `advantage`: one for all of them, or one each."""
        advantages = advantage if isinstance(advantage, Sequence) else [advantage] * len(self.steps)
        return [
            TrainingSample(
                trajectory_id=self.id,
                step=i,
                prompt_ids=s.completion.prompt_ids,
                response_ids=s.completion.token_ids,
                rollout_logprobs=s.completion.logprobs,
                images=s.images,
                version=s.completion.version,
                advantage=a,
                replayed=replayed,
            )
            for i, (s, a) in enumerate(zip(self.steps, advantages, strict=True))
        ]

    def samples_to_learn(
        self, advantage: float | Sequence[float], replayed: bool = False, skip_above: float = 1.0
    ) -> list[TrainingSample]:
        """`samples`, without the steps that failed where their advantage would reinforce them, those in which the model
        was not asked, and those whose response had a probability above `skip_above`."""
        made = zip(self.samples(advantage, replayed), self.steps, strict=True)
        return [
            s
            for s, step in made
            if s.response_ids
            and not (step.failed and s.advantage > 0)
            and (skip_above == 1.0 or sum(s.rollout_logprobs) <= math.log(skip_above))
        ]


@dataclass(frozen=True, slots=True)
class Group:
    """The G trajectories of one task, all collected for one iteration."""

    task: Task
    trajectories: tuple[Trajectory, ...]


class Cause(StrEnum):
    """Why a group was lost."""

    DEVICE = "device"
    """Devices, servers or a judge failed."""
    TASK = "task"
    """The task's own set-up or check failed, on devices that are well."""
    FREE_REWARD = "free_reward"
    """The task gives its reward for nothing."""


@dataclass(frozen=True, slots=True)
class LostGroup:
    """A group of which too few episodes were played. `reason`: the last fault of one that was given up."""

    task: Task
    cause: Cause
    reason: str


@dataclass(frozen=True, slots=True)
class TrainingSample:
    """One model call to learn from. Pixels are made from `images` only when a micro-batch is built."""

    trajectory_id: str
    step: int
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    rollout_logprobs: tuple[float, ...]
    images: tuple[bytes, ...] = field(repr=False)
    version: int
    """Version of the weights that sampled it."""
    advantage: float = 0.0
    """Shared by all its tokens; for imitation losses, its weight."""
    replayed: bool = False
    """Drawn from a buffer of earlier iterations."""
    old_logprobs: tuple[float, ...] | None = None
    """Under the weights that the clipping compares with; None: `rollout_logprobs`."""
    ref_logprobs: tuple[float, ...] | None = None
    """Under the frozen reference, when the objective has a KL term."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What an objective sees of R rows whose responses are at most L tokens long.

    `mask` is 1.0 on response tokens; log-probabilities are 0 elsewhere. `weights` is this micro-batch's part of the
    aggregation weights, which sum to 1 over the whole optimiser step: a loss is `sum(weights * per_token)`.
    """

    logp: Tensor
    """(R, L) under the current weights, with gradient."""
    old_logp: Tensor
    """(R, L) under the weights the clipping compares with."""
    rollout_logp: Tensor
    """(R, L) as the sampler reported them."""
    ref_logp: Tensor | None
    """(R, L) under the frozen reference, when the objective asked for one."""
    advantage: Tensor
    """(R,)"""
    older: Tensor
    """(R,) bool: not drawn by the weights that this iteration began with: replayed, or collected ahead of learning."""
    replayed: Tensor
    """(R,) bool: drawn from a buffer."""
    mask: Tensor
    weights: Tensor


Objective = Callable[[MicroBatch], tuple["Tensor", Mapping[str, "Tensor"]]]
"""(loss, metrics). Metrics add up over micro-batches, except those ending in `_max`, of which the largest is kept."""
