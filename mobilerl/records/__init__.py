"""Records of rollouts and training: Step, Trajectory, Group and TrainingSample.

Screenshots are PNG bytes shared by reference: one `bytes` object is both the observation of a step and an image in the
prompts that show it, so a trajectory holds each screen once. On disk they become `screens/<sha256>.png`.
`mobilerl.records.files` reads and writes trajectories.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from mobilerl.envs.base import Action, Invalid, Observation, Task

if TYPE_CHECKING:
    from torch import Tensor


class Status(StrEnum):
    """How an episode ended. All but `INFRA_ERROR` are results of the policy."""

    FINISHED = "finished"
    """The agent finished, or the judge found the task done (`judge.every_step`)."""
    TRUNCATED = "truncated"
    """The step budget ran out."""
    INVALID = "invalid"
    """Too many invalid actions in a row."""
    INFRA_ERROR = "infra_error"
    """A device failed. The episode is retried on another device and never used for an advantage."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Token-exact result of one model call. `logprobs` are under the distribution that the tokens were sampled from."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    version: int
    text: str
    cut_off: bool = False
    """Whether a model server said that the response reached the token limit."""


@dataclass(frozen=True, slots=True)
class Step:
    observation: Observation
    completion: Completion
    images: tuple[bytes, ...] = field(repr=False)
    """PNGs of the prompt, in the order of their placeholders."""
    thought: str
    action: Action
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase: `policy`, `act`, `settle`, `observe`."""
    note: str = ""
    """Why the device did not carry out the action; "" if it did. It is shown in the prompts of later steps."""

    @property
    def failed(self) -> bool:
        """Whether the action could not be parsed or was not carried out."""
        return isinstance(self.action, Invalid) or bool(self.note)


SUCCESS = 0.5
"""A reward above this is a success; a failure earns at most this much partial credit."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    id: str
    task: Task
    steps: tuple[Step, ...]
    reward: float
    """Unshaped reward in [0, 1], from the task's own check unless a judge or scorer replaces it."""
    status: Status
    device_id: str
    error: str = ""
    wall_s: float = 0.0

    @property
    def success(self) -> bool:
        return self.reward > SUCCESS

    def samples(self, advantage: float | Sequence[float] = 0.0, replayed: bool = False) -> list[TrainingSample]:
        """Makes one training sample per step, in order. `advantage` is a value for all of them or one per step."""
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
        self,
        advantage: float | Sequence[float],
        replayed: bool = False,
        max_response_prob: float = 1.0,
        failed_steps: bool = False,
    ) -> list[TrainingSample]:
        """Like `samples`, but without failed steps with a positive advantage (unless `failed_steps`), steps without a
        response, and steps whose response had a probability above `max_response_prob`."""
        made = zip(self.samples(advantage, replayed), self.steps, strict=True)
        return [
            s
            for s, step in made
            if s.response_ids
            and (failed_steps or not (step.failed and s.advantage > 0))
            and (max_response_prob == 1.0 or sum(s.rollout_logprobs) <= math.log(max_response_prob))
        ]


@dataclass(frozen=True, slots=True)
class Group:
    """The G trajectories of one task, collected for the same iteration."""

    task: Task
    trajectories: tuple[Trajectory, ...]


class Cause(StrEnum):
    """Why a group was lost."""

    DEVICE = "device"
    """Devices, servers or a judge failed."""
    TASK = "task"
    """The task's own set-up or check failed on healthy devices."""
    FREE_REWARD = "free_reward"
    """The task gives its reward before the agent has done anything."""


@dataclass(frozen=True, slots=True)
class LostGroup:
    """A group with too few complete episodes. `reason` is the last failure of one that was given up."""

    task: Task
    cause: Cause
    reason: str


@dataclass(frozen=True, slots=True)
class TrainingSample:
    """One model call to train on. `images` are converted to pixels only when a micro-batch is built."""

    trajectory_id: str
    step: int
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    rollout_logprobs: tuple[float, ...]
    images: tuple[bytes, ...] = field(repr=False)
    version: int
    """Version of the weights that sampled the response."""
    advantage: float = 0.0
    """Advantage of all response tokens; for imitation losses, the weight of the sample."""
    replayed: bool = False
    """Whether the sample was drawn from a replay buffer."""
    old_logprobs: tuple[float, ...] | None = None
    """Log-probabilities that the clipped ratio is taken against; None for `rollout_logprobs`."""
    ref_logprobs: tuple[float, ...] | None = None
    """Log-probabilities under the frozen reference, if the objective has a KL term."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Tensors that an objective gets of R samples with responses of at most L tokens.

    `mask` is 1.0 on response tokens; log-probabilities are 0 elsewhere. `weights` is this micro-batch's part of the
    aggregation weights, which sum to 1 over the whole optimizer step, so that a loss is `sum(weights * per_token)`.
    """

    logp: Tensor
    """(R, L) log-probabilities under the current weights, with gradient."""
    old_logp: Tensor
    """(R, L) log-probabilities that the clipped ratio is taken against."""
    rollout_logp: Tensor
    """(R, L) log-probabilities as reported by the sampler."""
    ref_logp: Tensor | None
    """(R, L) log-probabilities under the frozen reference; None without a KL term."""
    advantage: Tensor
    """(R,)"""
    off_policy: Tensor
    """(R,) bool: replayed, or sampled by an earlier version of the weights because collection ran ahead."""
    replayed: Tensor
    """(R,) bool: drawn from a replay buffer."""
    mask: Tensor
    weights: Tensor


Objective = Callable[[MicroBatch], tuple["Tensor", Mapping[str, "Tensor"]]]
"""Returns (loss, metrics). Metrics are summed over micro-batches, except that those ending in `_max` are maxima."""
