"""What an episode leaves behind: Step, Trajectory, Group and Row.

Screenshots are PNG bytes shared by reference: the same `bytes` object is the observation of one step and an image of
the prompts that show it, so a trajectory holds each screen once. On disk they become `screens/<sha256>.png`.
`mobilerl.trajectory_files` reads and writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from envs.base import Action, Observation, Task


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
    images: tuple[bytes, ...]
    """PNGs in the order of their placeholders in the prompt."""
    thought: str
    action: Action
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase: `policy`, `act`, `settle`, `observe`."""
    note: str = ""
    """Why the device did not carry the action out; "" when it did. The prompts of later steps say it."""


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

    def rows(self) -> list[Row]:
        """One row per model call, in step order."""
        return [
            Row(
                trajectory_id=self.id,
                step=i,
                prompt_ids=s.completion.prompt_ids,
                response_ids=s.completion.token_ids,
                rollout_logprobs=s.completion.logprobs,
                images=s.images,
                version=s.completion.version,
            )
            for i, s in enumerate(self.steps)
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
class Row:
    """One model call = one training sample. Pixels are made from `images` only when a micro-batch is built."""

    trajectory_id: str
    step: int
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    rollout_logprobs: tuple[float, ...]
    images: tuple[bytes, ...]
    version: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one optimiser step. `advantages[i]` belongs to `rows[i]` and is shared by all its tokens."""

    rows: Sequence[Row]
    advantages: Sequence[float]
    replayed: Sequence[bool]
    old_logprobs: Sequence[tuple[float, ...]] | None = None
    """Per row, under the weights the clipping compares with; None: the rollout's own."""
    ref_logprobs: Sequence[tuple[float, ...]] | None = None
    """Per row, under the frozen reference, when the objective has a KL term."""
    version: int | None = None
    """Of the weights that learn; None: nobody asks which rows were drawn by others."""
