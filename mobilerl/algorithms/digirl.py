"""DigiRL (arXiv 2406.11896, section 4): imitation of steps that two value functions rate better than expected."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from mobilerl.algorithms.advantages import doubly_robust_step, instruction_advantage, keep_steps, keep_trajectories
from mobilerl.algorithms.base import Resources
from mobilerl.algorithms.buffered import BufferedAlgorithm
from mobilerl.algorithms.critics import Encoder, ValueTrainer, seed_torch
from mobilerl.algorithms.objectives import imitation
from mobilerl.algorithms.replay import CircularReplay
from mobilerl.algorithms.values import InstructionValue, StepValue
from mobilerl.config.algorithms import DigiRLSection
from mobilerl.records import Trajectory


class DigiRL(BufferedAlgorithm):
    """Imitates the steps that DigiRL's filters keep. A step's advantage is its weight; weight 0 is never drawn.

    As in the paper, values are trained on all data, and the instruction filter is not applied to stored trajectories.
    Before the first success nothing is kept: the values are meaningless, and there is nothing to imitate.
    """

    settings: DigiRLSection

    def __init__(self, settings: DigiRLSection, resources: Resources) -> None:
        super().__init__(settings, resources, CircularReplay(settings.replay.capacity))
        self.objective = imitation
        self._encoder = Encoder(resources.features())
        size = self._encoder.size
        with seed_torch(resources.seed):
            self._step = ValueTrainer(StepValue(3 * size, size), settings.critic)
            self._instruction = ValueTrainer(InstructionValue(size), settings.critic)
        self._learned = {"encoder": self._encoder, "step": self._step, "instruction": self._instruction}

    def evaluate(self, trajectories: Sequence[Trajectory], rng: random.Random, offline: bool) -> dict[str, float]:
        seen = self._encoder(trajectories)
        final = torch.tensor([t.reward for t in trajectories])
        step_final = final.repeat_interleave(torch.tensor(seen.lengths))
        step = self._step.fit([seen.states, seen.row_instructions], step_final, rng, offline)  # eq. 4.6
        instruction = self._instruction.fit([seen.instructions], final, rng, offline)  # eq. 4.5
        metrics = {"critic/step_loss": step["loss"], "critic/instruction_loss": instruction["loss"]}
        if not (self._step.ready and self._instruction.ready):
            self._advantages = {}
            return {**metrics, "critic/kept": 0.0}
        values = self._step.predict(seen.states, seen.row_instructions).split(seen.lengths)
        advantages = [_step_advantage(t, v, self.settings.lam) for t, v in zip(trajectories, values, strict=True)]
        allowed = self._instruction_filter(trajectories, final, seen.instructions, offline)
        weights = [
            (keep_steps(a, t.task.max_steps) & keep).float()
            for a, t, keep in zip(advantages, trajectories, allowed, strict=True)
        ]
        self._advantages = {t.id: w.tolist() for t, w in zip(trajectories, weights, strict=True)}
        kept = (torch.cat(weights) > 0).float().mean().item()
        return {**metrics, "critic/kept": kept, "critic/value": step["value_mean"]}

    def _instruction_filter(
        self, trajectories: Sequence[Trajectory], final: Tensor, instructions: Tensor, offline: bool
    ) -> Tensor:
        """(N,) bool: which trajectories pass the instruction filter."""
        success = torch.tensor([t.success for t in trajectories])
        if offline:
            return success
        advantage = instruction_advantage(final, self._instruction.predict(instructions))  # eq. 4.4
        return keep_trajectories(advantage, success, self.settings.top_p)

    def instruction_values(self, instructions: Sequence[str]) -> list[float] | None:
        if not self._instruction.ready:
            return None
        return self._instruction.predict(self._encoder.instructions(instructions)).tolist()


def _step_advantage(trajectory: Trajectory, value: Tensor, lam: float) -> Tensor:
    """(T,) step advantages (eq. 4.3)."""
    steps = len(value)
    last = torch.zeros(steps)
    last[-1] = 1.0
    next_value = torch.cat([value[1:], torch.zeros(1)])
    final = torch.full((steps,), trajectory.reward)
    to_go = torch.arange(steps - 1, -1, -1)
    return doubly_robust_step(value, next_value, last * trajectory.reward, final, to_go, lam)
