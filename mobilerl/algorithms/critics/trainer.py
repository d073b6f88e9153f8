"""A value head with its optimizer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from mobilerl.algorithms.checks import finite, load_optimizer
from mobilerl.algorithms.values import ValueHead, train_step
from mobilerl.config.algorithms.base import ValueSection

OFFLINE_UPDATES = 400
"""Optimizer steps of a value function on stored trajectories before the first iteration."""
LEARNING_RATE, GRAD_CLIP = 3e-3, 0.01
"""Learning rate of Adam and maximum gradient norm (DigiRL, DistRL)."""
BATCH = 256
"""Samples (or trajectories) per optimizer step of a value function."""


@contextmanager
def seed_torch(seed: int) -> Iterator[None]:
    """Seeds torch for making heads, so that they are the same with every engine, and restores its RNG afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


class ValueTrainer:
    def __init__(self, head: ValueHead, settings: ValueSection) -> None:
        self.head, self._settings = head, settings
        self._optimizer = torch.optim.Adam(head.parameters(), lr=LEARNING_RATE)

    @property
    def ready(self) -> bool:
        """Whether the head was trained with a success; before that its values are meaningless."""
        return self.head.ready

    def fit(
        self,
        features: Sequence[Tensor],
        target: Tensor | Callable[[], Tensor],
        rng: random.Random,
        offline: bool = False,
    ) -> dict[str, float]:
        """Takes cross-entropy steps on random rows of `features`, (N, size) each, towards `target`, (N,).

        Targets that depend on the values themselves are passed as a function and recomputed every quarter of the steps.
        Returns the mean `loss`, `value_mean` and `target_mean` of the steps.
        """
        steps = OFFLINE_UPDATES if offline else self._settings.updates
        history: list[dict[str, float]] = []
        labels = target if isinstance(target, Tensor) else target()
        for step in range(steps):
            if callable(target) and step and step * 4 // steps > (step - 1) * 4 // steps:
                labels = target()
            rows = rng.sample(range(len(labels)), min(BATCH, len(labels)))
            chosen = [feature[rows] for feature in features]
            history.append(train_step(self.head, self._optimizer, chosen, labels[rows], GRAD_CLIP))
        return {name: sum(h[name] for h in history) / len(history) for name in ("loss", "value_mean", "target_mean")}

    def predict(self, *features: Tensor) -> Tensor:
        """(N,) values in (0, 1). Raises ValueError unless `ready`."""
        return self.head.predict(*features)

    @torch.no_grad()
    def logits(self, *features: Tensor) -> Tensor:
        """(N,) logits, for ranking: values are clamped, so that the lowest ones are equal."""
        return self.head(*features)

    def state_dict(self) -> dict[str, Any]:
        return {"head": self.head.state_dict(), "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        try:
            self.head.load_state_dict(state["head"])
            finite(self.head.state_dict())
            load_optimizer(self._optimizer, state["optimizer"], stepped=False)
        except (KeyError, RuntimeError, TypeError, AttributeError) as error:
            raise ValueError(f"the value function's state has another shape: {' '.join(str(error).split())}") from None
