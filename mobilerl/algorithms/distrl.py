"""DistRL (arXiv 2410.14803, section 5): off-policy A-RIDE with Retrace and prioritized replay (DPER)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mobilerl.algorithms.advantages import distrl_reward, keep_highest, monte_carlo_return, retrace_target, td_error
from mobilerl.algorithms.base import Resources
from mobilerl.algorithms.buffered import BufferedAlgorithm
from mobilerl.algorithms.critics import Encoded, Encoder, ValueTrainer, seed_torch
from mobilerl.algorithms.losses.tokens import safe_exp
from mobilerl.algorithms.objectives import aride
from mobilerl.algorithms.replay import PrioritizedReplay, PriorityTerms
from mobilerl.algorithms.rewards import step_penalties
from mobilerl.algorithms.values import StepValue
from mobilerl.config.algorithms import DistRLSection
from mobilerl.records import Trajectory

PER_REPEAT, REPEAT_CAP, PER_INVALID = 0.1, 0.4, 1.0
"""Penalty per immediate repeat of an action (cumulative) with its maximum, and penalty of an action that could not be
carried out. The paper does not publish them."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """One trajectory measured with the latest policy; all tensors are (T,)."""

    reward: Tensor
    """r_t: the final reward at the last step, 0 before."""
    penalty: Tensor
    ratio: Tensor
    """rho_t of whole actions."""
    entropy: Tensor
    """-log pi(a_t|s_t)"""


class DistRL(BufferedAlgorithm):
    """Recomputes ratios, values, advantages and priorities of the whole buffer with the latest policy.

    A truncated episode counts as ended, since the step budget is part of the task and nothing follows it.
    """

    settings: DistRLSection
    replay: PrioritizedReplay

    def __init__(self, settings: DistRLSection, resources: Resources) -> None:
        replay = settings.replay
        super().__init__(settings, resources, PrioritizedReplay(replay.capacity, replay.alpha, replay.priority_weights))
        self.objective = aride(settings.entropy_coef)
        self._scorer = resources.scorer
        self._encoder = Encoder(resources.features())
        size = self._encoder.size
        with seed_torch(resources.seed):
            self._state = ValueTrainer(StepValue(3 * size, size), settings.critic)
            self._trajectory = ValueTrainer(StepValue(3 * size, size), settings.critic)
        self._learned = {"encoder": self._encoder, "state": self._state, "trajectory": self._trajectory}

    def evaluate(self, trajectories: Sequence[Trajectory], rng: random.Random, offline: bool) -> dict[str, float]:
        seen = self._encoder(trajectories)
        measured = self._measure(trajectories)
        gamma = self.settings.gamma
        positive = [monte_carlo_return(m.reward, gamma) > 0 for m in measured]
        returned = torch.cat([p.float() * t.success for p, t in zip(positive, trajectories, strict=True)])

        def targets() -> Tensor:
            return self._targets(seen, measured, returned)

        target = targets if self.settings.retrace else returned
        learned = self._state.fit([seen.states, seen.row_instructions], target, rng, offline)
        kept, metrics = self._trajectory_filter(trajectories, seen, rng, offline)
        self._update(trajectories, kept, seen, measured)
        ratios = torch.cat([m.ratio for m in measured])
        return {
            "critic/state_loss": learned["loss"],
            "critic/value": learned["value_mean"],
            **metrics,
            "critic/ratio_mean": ratios.clamp(max=1.0).mean().item(),
        }

    def _measure(self, trajectories: Sequence[Trajectory]) -> list[_Measured]:
        samples = [sample for t in trajectories for sample in t.samples()]
        scores = iter(self._scorer.logprobs([s for s in samples if s.response_ids]))  # others were not sampled
        now = torch.tensor([math.fsum(next(scores)) if s.response_ids else 0.0 for s in samples])
        then = torch.tensor([math.fsum(sample.rollout_logprobs) for sample in samples])
        ratio = safe_exp(now - then)
        lengths = [len(t.steps) for t in trajectories]
        return [
            _Measured(_rewards(t), _penalties(t), r, -logp)
            for t, r, logp in zip(trajectories, ratio.split(lengths), now.split(lengths), strict=True)
        ]

    def _targets(self, seen: Encoded, measured: Sequence[_Measured], returned: Tensor) -> Tensor:
        """(R,) targets of the state value, corrected by Retrace once it was trained with a success."""
        if not self._state.ready:
            return returned
        gamma, lam = self.settings.gamma, self.settings.lam
        values = self._values(seen)
        corrected = [
            retrace_target(v, _next(v), m.reward, m.ratio, gamma, lam) for v, m in zip(values, measured, strict=True)
        ]
        return torch.cat(corrected).clamp(0.0, 1.0)

    def _values(self, seen: Encoded) -> Sequence[Tensor]:
        """V(s_t) per trajectory; 0 before the first success, which is then correct for all data."""
        if not self._state.ready:
            return [torch.zeros(n) for n in seen.lengths]
        return self._state.predict(seen.states, seen.row_instructions).split(seen.lengths)

    def _trajectory_filter(
        self, trajectories: Sequence[Trajectory], seen: Encoded, rng: random.Random, offline: bool
    ) -> tuple[list[bool], dict[str, float]]:
        """Trains the trajectory value; returns which trajectories have a high one (at first all) and metrics."""
        final = torch.tensor([t.reward for t in trajectories])
        ends = [seen.states[seen.last_rows], seen.instructions]
        learned = self._trajectory.fit(ends, final, rng, offline)
        kept = torch.ones(len(trajectories), dtype=torch.bool)
        if self._trajectory.ready:
            kept = keep_highest(self._trajectory.logits(*ends), self.settings.trajectory_top_p)
        return kept.tolist(), {"critic/trajectory_loss": learned["loss"], "critic/kept": kept.float().mean().item()}

    def _update(
        self, trajectories: Sequence[Trajectory], kept: Sequence[bool], seen: Encoded, measured: Sequence[_Measured]
    ) -> None:
        """Updates the advantages of the kept trajectories and the priorities of all."""
        s = self.settings
        advantages: dict[str, list[float]] = {}
        priorities: dict[str, PriorityTerms] = {}
        for t, keep, v, m in zip(trajectories, kept, self._values(seen), measured, strict=True):
            if keep:
                shaped = distrl_reward(m.reward, m.penalty, s.gamma)
                advantages[t.id] = td_error(v, _next(v), shaped, s.gamma).tolist()
            delta = td_error(v, _next(v), m.reward, s.gamma)
            priorities[t.id] = PriorityTerms.of(delta.tolist(), m.ratio.tolist(), m.entropy.tolist())
        self._advantages = advantages
        self.replay.update(priorities)


def _rewards(trajectory: Trajectory) -> Tensor:
    rewards = torch.zeros(len(trajectory.steps))
    rewards[-1] = trajectory.reward
    return rewards


def _penalties(trajectory: Trajectory) -> Tensor:
    """(T,) penalties of repeated and of failed actions."""
    keys, failed = [repr(step.action) for step in trajectory.steps], [step.failed for step in trajectory.steps]
    return torch.tensor(step_penalties(keys, failed, PER_REPEAT, REPEAT_CAP, PER_INVALID))


def _next(value: Tensor) -> Tensor:
    """V(s_{t+1}), which is 0 after the last step."""
    return torch.cat([value[1:], torch.zeros(1)])
