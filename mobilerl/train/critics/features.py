"""From trajectories to the inputs of value heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from mobilerl.records import Trajectory

STILL = 1e-3
"""A dimension that spreads by less, of features whose root mean square is 1, tells nothing apart, and is not scaled up:
what the first trajectories share, others need not."""


class Features(Protocol):
    """`engines.features.FrozenFeatures`."""

    size: int

    def make_room(self, vectors: int) -> None: ...
    def screens(self, pngs: Sequence[bytes]) -> Tensor: ...
    def prompts(self, prompts: Sequence[Sequence[int]]) -> Tensor: ...
    def instruction(self, text: str) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Encoded:
    """Of N trajectories with R rows in all, in their order."""

    states: Tensor
    """(R, 3 size): the last two screens and the prompt's text."""
    instructions: Tensor
    """(N, size)"""
    lengths: tuple[int, ...]
    """Rows of each trajectory."""

    @property
    def row_instructions(self) -> Tensor:
        """(R, size)"""
        return self.instructions.repeat_interleave(torch.tensor(self.lengths), 0)

    @property
    def last_rows(self) -> Tensor:
        """(N,) indices of each trajectory's last row."""
        return torch.tensor(self.lengths).cumsum(0) - 1


class Encoder:
    """Features with mean 0 and spread 1, by the mean and spread of the first trajectories that it saw.

    The means over a screen's tokens are nearly the same vector for all screens: what tells them apart is small beside
    what they share, and a head would take very long to find it. The scale is part of the state and never changes.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        self.size = features.size
        self._scale: dict[str, Tensor] | None = None

    def __call__(self, trajectories: Sequence[Trajectory]) -> Encoded:
        """ValueError for a trajectory without steps."""
        if empty := [t.id for t in trajectories if not t.steps]:
            raise ValueError(f"trajectory {empty[0]} has no steps: nothing of it can be judged")
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
            raise ValueError("no trajectory was seen yet, so that features have no scale")
        return (vectors - self._scale[f"{name}_mean"]) / self._scale[f"{name}_std"]

    def state_dict(self) -> dict[str, Any]:
        return {"scale": self._scale}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._scale = state["scale"]


def _spread(name: str, vectors: Tensor) -> dict[str, Tensor]:
    spread = vectors.std(0, correction=0)
    return {f"{name}_mean": vectors.mean(0), f"{name}_std": torch.where(spread < STILL, 1.0, spread)}
