"""Encodes trajectories as the inputs of value heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from mobilerl.algorithms.checks import finite
from mobilerl.records import Trajectory

MIN_STD = 1e-3
"""Feature dimensions with a smaller standard deviation are not scaled up (features have a root mean square of 1)."""


class Features(Protocol):
    """Interface of `models.features.FrozenFeatures`."""

    size: int

    def make_room(self, vectors: int) -> None: ...
    def screens(self, pngs: Sequence[bytes]) -> Tensor: ...
    def prompts(self, prompts: Sequence[Sequence[int]]) -> Tensor: ...
    def instruction(self, text: str) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Encoded:
    """Features of N trajectories with R steps in total, in order."""

    states: Tensor
    """(R, 3 size): the last two screens and the text of the prompt."""
    instructions: Tensor
    """(N, size)"""
    lengths: tuple[int, ...]
    """Number of steps of each trajectory."""

    @property
    def row_instructions(self) -> Tensor:
        """(R, size): the instruction of each step."""
        return self.instructions.repeat_interleave(torch.tensor(self.lengths), 0)

    @property
    def last_rows(self) -> Tensor:
        """(N,) index of each trajectory's last step."""
        return torch.tensor(self.lengths).cumsum(0) - 1


class Encoder:
    """Scales features to mean 0 and standard deviation 1, as measured on the first trajectories.

    Mean-pooled features of different screens are nearly equal, so a head would learn very slowly on unscaled ones. The
    scale is part of the state and never changes.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        self.size = features.size
        self._scale: dict[str, Tensor] | None = None

    def __call__(self, trajectories: Sequence[Trajectory]) -> Encoded:
        """Encodes trajectories. Raises ValueError for one without steps."""
        if empty := [t.id for t in trajectories if not t.steps]:
            raise ValueError(f"trajectory {empty[0]} has no steps")
        self._features.make_room(sum(len(t.steps) for t in trajectories) + len(trajectories))
        states = torch.cat([self._states(t) for t in trajectories])
        instructions = torch.stack([self._features.instruction(t.task.instruction) for t in trajectories])
        if self._scale is None:
            self._scale = {**_measure_spread("state", states), **_measure_spread("instruction", instructions)}
        lengths = tuple(len(t.steps) for t in trajectories)
        return Encoded(self._normalize("state", states), self._normalize("instruction", instructions), lengths)

    def instructions(self, texts: Sequence[str]) -> Tensor:
        """Encodes instructions alone, (N, size)."""
        return self._normalize("instruction", torch.stack([self._features.instruction(text) for text in texts]))

    def _states(self, trajectory: Trajectory) -> Tensor:
        """Unscaled state features, (T, 3 size). The first screen of an episode also serves as the one before it."""
        screens = self._features.screens([s.observation.screenshot for s in trajectory.steps])
        texts = self._features.prompts([s.completion.prompt_ids for s in trajectory.steps])
        before = torch.cat([screens[:1], screens[:-1]])
        return torch.cat([before, screens, texts], dim=1)

    def _normalize(self, name: str, vectors: Tensor) -> Tensor:
        if self._scale is None:
            raise ValueError("features have no scale before the first trajectories")
        return (vectors - self._scale[f"{name}_mean"]) / self._scale[f"{name}_std"]

    def state_dict(self) -> dict[str, Any]:
        return {"scale": self._scale}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["scale"] is not None:  # None before the first fit
            finite(state["scale"])
        self._scale = state["scale"]


def _measure_spread(name: str, vectors: Tensor) -> dict[str, Tensor]:
    spread = vectors.std(0, correction=0)
    return {f"{name}_mean": vectors.mean(0), f"{name}_std": torch.where(spread < MIN_STD, 1.0, spread)}
