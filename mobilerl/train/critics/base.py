"""What every critic is: heads with optimisers, what they are trained on, and their state."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from mobilerl.algorithms.replay import CircularReplay
from mobilerl.algorithms.values import ValueHead, train_step
from mobilerl.config import CriticSection


class Critic(Protocol):
    def judge(self, replay: CircularReplay, rng: random.Random, offline: bool = False) -> dict[str, float]:
        """Trains the value functions on the whole buffer, then gives every row in it its advantage.

        `offline`: on stored trajectories, before the first iteration. Returns metrics under `critic/`.
        """

    def instruction_values(self, instructions: Sequence[str]) -> list[float] | None:
        """V(c) of each instruction; None while it means nothing, or if there is no such function."""

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values: heads, optimisers and the features' scale."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores `state_dict`, bit for bit. ValueError if it is not of a critic of this shape."""


BATCH = 256
"""Rows, or trajectories, of one step of a value function."""


class Trained:
    """A value head with its optimiser."""

    def __init__(self, head: ValueHead, settings: CriticSection) -> None:
        self.head, self._settings = head, settings
        self._optimizer = torch.optim.Adam(head.parameters(), lr=settings.learning_rate)

    @property
    def ready(self) -> bool:
        return self.head.ready

    def fit(self, features: Sequence[Tensor], target: Tensor | Callable[[], Tensor], steps: int,
            rng: random.Random) -> dict[str, float]:  # fmt: skip
        """`steps` cross-entropy steps on random rows of `features`, (N, size) each, towards `target`, (N,).

        Targets that depend on the values themselves are given as a function and made for every quarter of the steps.
        Returns the means of `train_step`'s metrics.
        """
        history: list[dict[str, float]] = []
        labels = target if isinstance(target, Tensor) else target()
        for step in range(steps):
            if callable(target) and step and step * 4 // steps > (step - 1) * 4 // steps:
                labels = target()
            rows = rng.sample(range(len(labels)), min(BATCH, len(labels)))
            chosen = [feature[rows] for feature in features]
            history.append(train_step(self.head, self._optimizer, chosen, labels[rows], self._settings.grad_clip))
        return {name: sum(h[name] for h in history) / len(history) for name in ("loss", "value_mean", "target_mean")}

    def predict(self, *features: Tensor) -> Tensor:
        """(N,) values in (0, 1); ValueError unless `ready`."""
        return self.head.predict(*features)

    @torch.no_grad()
    def rank(self, *features: Tensor) -> Tensor:
        """(N,) logits: as values are clamped, the lowest of those would all be alike."""
        return self.head(*features)

    def state_dict(self) -> dict[str, Any]:
        return {"head": self.head.state_dict(), "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        try:
            self.head.load_state_dict(state["head"])
            self._optimizer.load_state_dict(state["optimizer"])
        except (KeyError, RuntimeError) as error:
            raise ValueError(f"the critic's state is of another shape: {' '.join(str(error).split())}") from None
