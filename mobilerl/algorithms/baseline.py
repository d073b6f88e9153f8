"""A value function as the baseline of step advantages, in place of the mean of a group."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mobilerl.algorithms.advantages import gae
from mobilerl.algorithms.base import Resources
from mobilerl.algorithms.critics import Encoder, ValueTrainer, seed_torch
from mobilerl.algorithms.values import StepValue
from mobilerl.config.algorithms.base import ValueSection
from mobilerl.records import Trajectory


class ValueBaseline:
    """DigiRL's state value V(s, c), from which step advantages are estimated (SAO, arXiv 2607.07508).

    V predicts the reward after shaping that an episode ends with. It is trained on each iteration's episodes after
    their advantages were computed, so that it knows nothing of the rewards that it is compared with.
    """

    def __init__(self, resources: Resources, settings: ValueSection, lam: float) -> None:
        self._encoder = Encoder(resources.features())
        size, self._seed, self._lam = self._encoder.size, resources.seed, lam
        with seed_torch(resources.seed):
            self._value = ValueTrainer(StepValue(3 * size, size), settings)

    @property
    def ready(self) -> bool:
        """Whether V was trained with a success; before that it has no advantages."""
        return self._value.ready

    def advantages(self, trajectories: Sequence[Trajectory], rewards: Tensor) -> Tensor:
        """(R,) float64 advantages of the steps of all trajectories, in order, from their (N,) rewards."""
        seen = self._encoder(trajectories)
        values = self._value.predict(seen.states, seen.row_instructions).double().split(seen.lengths)
        return torch.cat([gae(_at_end(r, len(v)), v, self._lam) for r, v in zip(rewards, values, strict=True)])

    def fit(self, trajectories: Sequence[Trajectory], rewards: Tensor, iteration: int) -> dict[str, float]:
        """Trains V on trajectories with these (N,) rewards in [0, 1]; returns metrics."""
        seen = self._encoder(trajectories)
        target = rewards.float().repeat_interleave(torch.tensor(seen.lengths))
        rng = random.Random(f"{self._seed}/{iteration}")
        learned = self._value.fit([seen.states, seen.row_instructions], target, rng)
        return {"critic/step_loss": learned["loss"], "critic/value": learned["value_mean"]}

    def state_dict(self) -> dict[str, Any]:
        return {"encoder": self._encoder.state_dict(), "step": self._value.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._encoder.load_state_dict(state["encoder"])
        self._value.load_state_dict(state["step"])


def _at_end(reward: Tensor, steps: int) -> Tensor:
    """(steps,) rewards, of which only the last is not 0."""
    rewards = torch.zeros(steps, dtype=reward.dtype)
    rewards[-1] = reward
    return rewards
