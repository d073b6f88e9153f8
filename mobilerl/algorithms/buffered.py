"""Base class of Filtered BC, DigiRL and DistRL, which draw mini-batches from a buffer of recent trajectories."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from mobilerl.algorithms.base import Algorithm, AlgorithmState, Resources
from mobilerl.algorithms.replay import CircularReplay
from mobilerl.config.algorithms.base import BufferedSection
from mobilerl.records import Group, TrainingSample, Trajectory

OFFLINE_ITERATIONS = 10
"""Optimizer steps on stored trajectories before the first iteration, as a multiple of those of an iteration."""


class Learned(Protocol):
    """What a checkpoint keeps of an algorithm: a value function with its optimizer, or the scale of its features."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class BufferedAlgorithm(Algorithm):
    """Learns from a replay buffer. A subclass computes the advantages of its steps once per iteration."""

    def __init__(self, settings: BufferedSection, resources: Resources, replay: CircularReplay) -> None:
        self.settings, self.replay = settings, replay
        self.stored_trajectories = settings.stored_trajectories
        self._mini_batch_size = resources.mini_batch_size
        self._advantages: Mapping[str, Sequence[float]] = {}
        self._value_metrics: dict[str, float] = {}
        self._learned: dict[str, Learned] = {}

    def evaluate(self, trajectories: Sequence[Trajectory], rng: random.Random, offline: bool) -> dict[str, float]:
        """Sets `_advantages`, by id, for the trajectories to learn from. Returns metrics."""
        raise NotImplementedError

    def add(self, groups: Sequence[Group], iteration: int) -> None:
        self.replay.insert([t for g in groups for t in g.trajectories], iteration)

    def mini_batches(self, rng: random.Random) -> Iterator[list[TrainingSample]]:
        return self._batches(self.settings.updates, rng, offline=False)

    def offline_batches(self, trajectories: Sequence[Trajectory], rng: random.Random) -> Iterator[list[TrainingSample]]:
        self.replay.insert(trajectories, 0)
        return self._batches(OFFLINE_ITERATIONS * self.settings.updates, rng, offline=True)

    def _batches(self, updates: int, rng: random.Random, offline: bool) -> Iterator[list[TrainingSample]]:
        self._value_metrics = self.evaluate(self.replay.trajectories, rng, offline) if len(self.replay) else {}
        for _ in range(updates):
            batch = self.replay.draw(self._mini_batch_size, rng, self._advantages)
            if not batch:
                return
            yield batch

    def metrics(self) -> dict[str, float]:
        return {"replay/size": len(self.replay), **self._value_metrics}

    def advantages(self) -> Mapping[str, float | Sequence[float]]:
        return self._advantages

    def state_dict(self) -> AlgorithmState:
        tensors = {name: part.state_dict() for name, part in self._learned.items()}
        return AlgorithmState(self.replay.state_dict(), tensors)

    def load_state_dict(self, state: AlgorithmState) -> None:
        if state.replay is not None:
            self.replay.load_state_dict(state.replay)
        for name, part in self._learned.items():
            part.load_state_dict(state.tensors[name])
