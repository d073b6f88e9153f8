"""DigiRL's critic: an instruction value, a step value, and the filters made of them (arXiv 2406.11896, section 4)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mobilerl.algorithms.advantages import (
    doubly_robust_step,
    instruction_advantage,
    keep_steps,
    keep_trajectories,
    soft_weight,
)
from mobilerl.algorithms.replay import CircularReplay
from mobilerl.algorithms.values import InstructionValue, StepValue
from mobilerl.config import CriticSection, DigirlSection
from mobilerl.records import Trajectory
from mobilerl.train.critics.base import Trained
from mobilerl.train.critics.features import Encoder


class DigirlCritic:
    """An advantage here is the weight with which a row is imitated; rows of weight 0 are never drawn.

    As in the paper, values are trained on all data, and on stored trajectories the instruction filter is skipped.
    Before the first success nothing is kept: the values would mean nothing, and there is nothing to imitate.
    """

    def __init__(self, encoder: Encoder, critic: CriticSection, settings: DigirlSection) -> None:
        self._encoder, self._critic, self._settings = encoder, critic, settings
        size = encoder.size
        self._step = Trained(StepValue(3 * size, size), critic)
        self._instruction = Trained(InstructionValue(size), critic)

    def judge(self, replay: CircularReplay, rng: random.Random, offline: bool = False) -> dict[str, float]:
        trajectories = replay.trajectories
        if not trajectories:
            return {}
        seen = self._encoder(trajectories)
        final = torch.tensor([t.reward for t in trajectories])
        row_final = final.repeat_interleave(torch.tensor(seen.lengths))
        steps = self._critic.offline_updates if offline else self._critic.updates
        step = self._step.fit([seen.states, seen.row_instructions], row_final, steps, rng)  # eq. 4.6
        instruction = self._instruction.fit([seen.instructions], final, steps, rng)  # eq. 4.5
        metrics = {"critic/step_loss": step["loss"], "critic/instruction_loss": instruction["loss"]}
        if not (self._step.ready and self._instruction.ready):
            replay.set_advantages({t.id: 0.0 for t in trajectories})
            return {**metrics, "critic/kept": 0.0}
        values = self._step.predict(seen.states, seen.row_instructions).split(seen.lengths)
        advantages = [_step_advantage(t, v, self._settings.lam) for t, v in zip(trajectories, values, strict=True)]
        if self._settings.filter == "soft":
            weights = [soft_weight(a, self._settings.beta) for a in advantages]
        else:
            allowed = self._allowed(trajectories, final, seen.instructions, offline)
            weights = [
                (keep_steps(a, t.task.max_steps) & keep).float()
                for a, t, keep in zip(advantages, trajectories, allowed, strict=True)
            ]
        replay.set_advantages({t.id: w.tolist() for t, w in zip(trajectories, weights, strict=True)})
        kept = torch.cat(weights)
        return {**metrics, "critic/kept": (kept > 0).float().mean().item(), "critic/value": step["value_mean"]}

    def _allowed(
        self, trajectories: Sequence[Trajectory], final: Tensor, instructions: Tensor, offline: bool
    ) -> Tensor:
        """(N,) bool: which trajectories pass the instruction filter."""
        success = torch.tensor([t.success for t in trajectories])
        if offline:
            return success
        advantage = instruction_advantage(final, self._instruction.predict(instructions))  # eq. 4.4
        return keep_trajectories(advantage, success, self._settings.top_p)

    def instruction_values(self, instructions: Sequence[str]) -> list[float] | None:
        if not self._instruction.ready:
            return None
        return self._instruction.predict(self._encoder.instructions(instructions)).tolist()

    def state_dict(self) -> dict[str, Any]:
        return {"encoder": self._encoder.state_dict(), "step": self._step.state_dict(),
                "instruction": self._instruction.state_dict()}  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._encoder.load_state_dict(state["encoder"])
        self._step.load_state_dict(state["step"])
        self._instruction.load_state_dict(state["instruction"])


def _step_advantage(trajectory: Trajectory, value: Tensor, lam: float) -> Tensor:
    """(T,) eq. 4.3."""
    steps = len(value)
    last = torch.zeros(steps)
    last[-1] = 1.0
    next_value = torch.cat([value[1:], torch.zeros(1)])
    final = torch.full((steps,), trajectory.reward)
    to_go = torch.arange(steps - 1, -1, -1)
    return doubly_robust_step(value, next_value, last * trajectory.reward, final, to_go, lam)
