"""What every algorithm is: from groups of episodes to mini-batches and an objective.

The training loop collects groups, gives them to `add`, updates the engine on every batch that `mini_batches` yields,
and does not know which algorithm it runs.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mobilerl.algorithms.critics.encoder import Features
from mobilerl.algorithms.losses import Aggregation
from mobilerl.config.algorithms import AlgorithmSection
from mobilerl.records import Group, Objective, TrainingSample, Trajectory


class Scorer(Protocol):
    """What an algorithm may ask of the engine."""

    version: int

    def logprobs(self, rows: Sequence[TrainingSample], reference: bool = False) -> list[tuple[float, ...]]:
        """Per response token, under the current weights or the frozen reference."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What an algorithm works with besides its settings."""

    scorer: Scorer
    features: Callable[[], Features]
    """Frozen features of the initial policy, for value functions."""
    mini_batch_size: int
    """Samples per optimiser step."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class AlgorithmState:
    """What a checkpoint holds of an algorithm."""

    replay: dict[str, Any] | None = None
    """`entries`, each with its `trajectory`, and otherwise JSON values."""
    tensors: dict[str, Any] = field(default_factory=dict)
    """Value functions, their optimisers and the features' scale."""


class Algorithm:
    """Base class. A subclass sets `objective` and implements `add` and `mini_batches`."""

    objective: Objective
    aggregation: Aggregation = "sample-mean"
    max_resample_rounds = 0
    """Extra rounds of collection per iteration that replace groups without an advantage."""
    stored_trajectories = ""
    """Run directory to learn from before the first iteration, by `offline_batches`; empty for none."""

    def informative(self, group: Group) -> list[bool]:
        """Per trajectory, whether there is something to learn from it."""
        return [True] * len(group.trajectories)

    def add(self, groups: Sequence[Group], iteration: int) -> None:
        """Takes in the groups of an iteration."""
        raise NotImplementedError

    def mini_batches(self, rng: random.Random) -> Iterator[list[TrainingSample]]:
        """The mini-batches of the iteration, with advantages; the engine is updated between two of them."""
        raise NotImplementedError

    def offline_batches(self, trajectories: Sequence[Trajectory], rng: random.Random) -> Iterator[list[TrainingSample]]:
        """Mini-batches of stored trajectories."""
        raise NotImplementedError

    def metrics(self) -> dict[str, float]:
        """Metrics of the iteration, once its mini-batches are used up."""
        return {"replay/size": 0}

    def advantages(self) -> Mapping[str, float | Sequence[float]]:
        """The newest advantages by trajectory id, one per trajectory or one per step."""
        raise NotImplementedError

    def shaped_rewards(self) -> Mapping[str, float]:
        """The newest rewards after shaping by trajectory id; {} without shaping."""
        return {}

    def instruction_values(self, instructions: Sequence[str]) -> list[float] | None:
        """Predicted success rate of each instruction; None without such a value function."""
        return None

    def state_dict(self) -> AlgorithmState:
        return AlgorithmState()

    def load_state_dict(self, state: AlgorithmState) -> None:
        """Restores `state_dict`, bit for bit. ValueError if it is another algorithm's."""


def make_algorithm(settings: AlgorithmSection, resources: Resources) -> Algorithm:
    """The algorithm that the settings are of."""
    module, _, name = settings.implementation.partition(":")
    return getattr(importlib.import_module(module), name)(settings, resources)
