"""From trajectories to the inputs of value heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from mobilerl.algorithms.checks import finite
from mobilerl.records import Trajectory

MIN_STD = 1e-3
"""Dimensions with a smaller standard deviation, of features whose root mean square is 1, are not scaled up."""


class Features(Protocol):
    """`engines.features.FrozenFeatures`."""

    size: int

    def make_room(self, vectors: int) -> None: ...
    def screens(self, pngs: Sequence[bytes]) -> Tensor: ...
    def prompts(self, prompts: Sequence[Sequence[int]]) -> Tensor: ...
    def instruction(self, text: str) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Encoded:
    """Features of N trajectories with R steps in all, in their order."""

    states: Tensor
    """(R, 3 size): the last two screens and the prompt's text."""
    instructions: Tensor
    """(N, size)"""
    lengths: tuple[int, ...]
    """Steps of each trajectory."""

    @property
    def row_instructions(self) -> Tensor:
        """(R, size)"""
        return self.instructions.repeat_interleave(torch.tensor(self.lengths), 0)

    @property
    def last_rows(self) -> Tensor:
        """(N,) index of each trajectory's last step."""
        return torch.tensor(self.lengths).cumsum(0) - 1


class Encoder:
    """Features scaled to mean 0 and standard deviation 1, by those of the first trajectories.

    Mean-pooled features of screens are nearly the same vector for all of them: unscaled, a head would take very long to
    find what differs. The scale is part of the state and never changes.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        self.size = features.size
        self._scale: dict[str, Tensor] | None = None

    def __call__(self, trajectories: Sequence[Trajectory]) -> Encoded:
        """ValueError for a trajectory without steps."""
        if empty := [t.id for t in trajectories if not t.steps]:
            raise ValueError(f"trajectory {empty[0]} has no steps")
        self._features.make_room(sum(len(t.steps) for t in trajectories) + len(trajectories))
        states = torch.cat([self._states(t) for t in trajectories])
        instructions = torch.stack([self._features.instruction(t.task.instruction) for t in trajectories])
        if self._scale is None:
            self._scale = {**_spread("state", states), **_spread("instruction", instructions)}
        lengths = tuple(len(t.steps) for t in trajectories)
        return Encoded(self._scaled("state", states), self._scaled("instruction", instructions), lengths)

    def instructions(self, texts: Sequence[str]) -> Tensor:
        """(N, size) of instructions alone."""
        return self._scaled("instruction", torch.stack([self._features.instruction(text) for text in texts]))

    def _states(self, trajectory: Trajectory) -> Tensor:
        """(T, 3 size). The first screen of an episode stands for the one before it as well."""
        screens = self._features.screens([s.observation.screenshot for s in trajectory.steps])
        texts = self._features.prompts([s.completion.prompt_ids for s in trajectory.steps])
        before = torch.cat([screens[:1], screens[:-1]])
        return torch.cat([before, screens, texts], dim=1)

    def _scaled(self, name: str, vectors: Tensor) -> Tensor:
        if self._scale is None:
            raise ValueError("features have no scale before the first trajectories")
        return (vectors - self._scale[f"{name}_mean"]) / self._scale[f"{name}_std"]

    def state_dict(self) -> dict[str, Any]:
        return {"scale": self._scale}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["scale"] is not None:  # None before the first fit
            finite(state["scale"])
        self._scale = state["scale"]


def _spread(name: str, vectors: Tensor) -> dict[str, Tensor]:
    spread = vectors.std(0, correction=0)
    return {f"{name}_mean": vectors.mean(0), f"{name}_std": torch.where(spread < MIN_STD, 1.0, spread)}
