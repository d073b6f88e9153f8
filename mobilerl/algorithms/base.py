"""Base class of algorithms, which turn groups of episodes into mini-batches and an objective.

The training loop collects groups, passes them to `add` and updates the engine on every batch that `mini_batches`
yields. It does not know which algorithm it runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mobilerl.algorithms.critics.encoder import Features
from mobilerl.algorithms.losses import Aggregation
from mobilerl.config.algorithms import AlgorithmSection
from mobilerl.config.named import load_named
from mobilerl.records import Group, Objective, TrainingSample, Trajectory


class Scorer(Protocol):
    """The part of an engine that algorithms may use."""

    version: int

    def logprobs(self, rows: Sequence[TrainingSample], reference: bool = False) -> list[tuple[float, ...]]:
        """Log-probabilities of the response tokens under the current weights or the frozen reference model."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Objects that an algorithm needs besides its settings."""

    scorer: Scorer
    features: Callable[[], Features]
    """Frozen features of the initial policy, for value functions."""
    mini_batch_size: int
    """Samples per optimizer step."""
    seed: int = 0
    hindsight: Callable[[Trajectory, Trajectory], list[TrainingSample | None]] | None = None
    """Samples of a trajectory with prompts that tell how another one solved the task (`policy.hindsight`)."""


@dataclass(frozen=True, slots=True)
class AlgorithmState:
    """State of an algorithm in a checkpoint."""

    replay: dict[str, Any] | None = None
    """JSON values, except for the `trajectory` in each of `entries`."""
    tensors: dict[str, Any] = field(default_factory=dict)
    """Value functions, their optimizers and the scale of their features."""


class Algorithm:
    """Base class. A subclass sets `objective` and implements `add` and `mini_batches`."""

    objective: Objective
    aggregation: Aggregation = "sample-mean"
    max_resample_rounds = 0
    """Maximum extra rounds of collection per iteration that replace zero-variance groups (dynamic sampling)."""
    reads_screenshots = True
    """Whether it reads the screenshots of observations, which are else drawn only where something else does."""
    stored_trajectories = ""
    """Run directory whose trajectories `offline_batches` uses before the first iteration; empty for none."""

    def informative(self, group: Group) -> list[bool]:
        """Whether there is something to learn from each trajectory of a group."""
        return [True] * len(group.trajectories)

    def add(self, groups: Sequence[Group], iteration: int) -> None:
        """Adds the groups of an iteration."""
        raise NotImplementedError

    def mini_batches(self, rng: random.Random) -> Iterator[list[TrainingSample]]:
        """Yields the iteration's mini-batches with advantages. The engine is updated on each before the next."""
        raise NotImplementedError

    def offline_batches(self, trajectories: Sequence[Trajectory], rng: random.Random) -> Iterator[list[TrainingSample]]:
        """Yields mini-batches of stored trajectories."""
        raise NotImplementedError

    def metrics(self) -> dict[str, float]:
        """Metrics of the iteration, to be read after its last mini-batch."""
        return {"replay/size": 0}

    def advantages(self) -> Mapping[str, float | Sequence[float]]:
        """Latest advantages by trajectory id, one per trajectory or one per step."""
        raise NotImplementedError

    def shaped_rewards(self) -> Mapping[str, float]:
        """Latest shaped rewards by trajectory id; {} without shaping."""
        return {}

    def instruction_values(self, instructions: Sequence[str]) -> list[float] | None:
        """Predicted success rate of each instruction; None without such a value function."""
        return None

    def state_dict(self) -> AlgorithmState:
        return AlgorithmState()

    def load_state_dict(self, state: AlgorithmState) -> None:
        """Restores the state bit for bit. Raises ValueError if it belongs to another algorithm."""


def make_algorithm(settings: AlgorithmSection, resources: Resources) -> Algorithm:
    """Makes the algorithm that the settings belong to. Raises ConfigError if its class cannot be imported."""
    return load_named(settings.implementation, f"{type(settings).__name__}.implementation")(settings, resources)
