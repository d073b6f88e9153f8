"""DistRL's critic: a trajectory value, a state value with Retrace, one-step advantages, and priorities for DPER
(arXiv 2410.14803, section 5)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from envs.base import Invalid
from mobilerl.algorithms.advantages import (
    distrl_reward,
    keep_highest,
    monte_carlo_return,
    retrace_target,
    td_error,
)
from mobilerl.algorithms.losses.tokens import safe_exp
from mobilerl.algorithms.replay import CircularReplay, PrioritizedReplay, PriorityTerms
from mobilerl.algorithms.rewards import step_penalties
from mobilerl.algorithms.values import StepValue
from mobilerl.config import CriticSection, DistrlSection
from mobilerl.engines.base import Engine
from mobilerl.records import Trajectory
from mobilerl.train.critics.base import Trained
from mobilerl.train.critics.features import Encoded, Encoder


@dataclass(frozen=True, slots=True)
class _Measured:
    """One trajectory under the newest policy, (T,) each."""

    reward: Tensor
    """r_t: the final reward at the last step, 0 before."""
    penalty: Tensor
    ratio: Tensor
    """rho_t of whole actions."""
    entropy: Tensor
    """-log pi(a_t|s_t)"""


class DistrlCritic:
    """Measures the whole buffer with the newest policy: ratios, values, advantages, priorities.

    An episode that ran out of steps counts as ended: its budget belongs to the task, and nothing comes after it.
    """

    def __init__(self, encoder: Encoder, critic: CriticSection, settings: DistrlSection, engine: Engine) -> None:
        self._encoder, self._critic, self._settings, self._engine = encoder, critic, settings, engine
        size = encoder.size
        self._state = Trained(StepValue(3 * size, size), critic)
        self._trajectory = Trained(StepValue(3 * size, size), critic)

    def judge(self, replay: CircularReplay, rng: random.Random, offline: bool = False) -> dict[str, float]:
        trajectories = replay.trajectories
        if not trajectories:
            return {}
        seen = self._encoder(trajectories)
        measured = self._measure(trajectories)
        steps = self._critic.offline_updates if offline else self._critic.updates
        rows = [seen.states, seen.row_instructions]
        returned = torch.cat([(monte_carlo_return(m.reward, self._settings.gamma) > 0).float() for m in measured])

        def targets() -> Tensor:
            return self._targets(seen, measured, returned)

        learned = self._state.fit(rows, targets if self._settings.retrace else returned, steps, rng)
        metrics = {"critic/state_loss": learned["loss"], "critic/value": learned["value_mean"]}
        metrics |= self._filter(replay, trajectories, seen, steps, rng)
        self._give(replay, trajectories, seen, measured)
        ratios = torch.cat([m.ratio for m in measured])
        return {**metrics, "critic/ratio_mean": ratios.clamp(max=1.0).mean().item()}

    def _measure(self, trajectories: Sequence[Trajectory]) -> list[_Measured]:
        rows = [row for t in trajectories for row in t.rows()]
        now = torch.tensor([math.fsum(logprobs) for logprobs in self._engine.logprobs(rows)])
        then = torch.tensor([math.fsum(row.rollout_logprobs) for row in rows])
        ratio = safe_exp(now - then)
        lengths = [len(t.steps) for t in trajectories]
        return [
            _Measured(_rewards(t), self._penalties(t), r, -logp)
            for t, r, logp in zip(trajectories, ratio.split(lengths), now.split(lengths), strict=True)
        ]

    def _penalties(self, trajectory: Trajectory) -> Tensor:
        """An action that was not understood or not carried out is invalid."""
        s = self._settings
        keys = [repr(step.action) for step in trajectory.steps]
        invalid = [isinstance(step.action, Invalid) or bool(step.note) for step in trajectory.steps]
        return torch.tensor(step_penalties(keys, invalid, s.per_repeat, s.repeat_cap, s.per_invalid))

    def _targets(self, seen: Encoded, measured: Sequence[_Measured], returned: Tensor) -> Tensor:
        """(R,) of the state value: corrected by Retrace, once it has seen a success."""
        if not self._state.ready:
            return returned
        gamma, lam = self._settings.gamma, self._settings.lam
        values = self._values(seen)
        corrected = [
            retrace_target(v, _next(v), m.reward, m.ratio, gamma, lam) for v, m in zip(values, measured, strict=True)
        ]
        return torch.cat(corrected).clamp(0.0, 1.0)

    def _values(self, seen: Encoded) -> Sequence[Tensor]:
        """V(s_t) per trajectory; 0 while no success was seen, which is then true of all data."""
        if not self._state.ready:
            return [torch.zeros(n) for n in seen.lengths]
        return self._state.predict(seen.states, seen.row_instructions).split(seen.lengths)

    def _filter(self, replay: CircularReplay, trajectories: Sequence[Trajectory], seen: Encoded, steps: int,
                rng: random.Random) -> dict[str, float]:  # fmt: skip
        """Withholds the trajectories of low trajectory value."""
        final = torch.tensor([t.reward for t in trajectories])
        ends = [seen.states[seen.last_rows], seen.instructions]
        learned = self._trajectory.fit(ends, final, steps, rng)
        metrics = {"critic/trajectory_loss": learned["loss"], "critic/kept": 1.0}
        if not self._trajectory.ready:
            return metrics
        kept = keep_highest(self._trajectory.rank(*ends), self._settings.trajectory_top_p)
        replay.withhold(t.id for t, keep in zip(trajectories, kept.tolist(), strict=True) if not keep)
        return {**metrics, "critic/kept": kept.float().mean().item()}

    def _give(self, replay: CircularReplay, trajectories: Sequence[Trajectory], seen: Encoded,
              measured: Sequence[_Measured]) -> None:  # fmt: skip
        """Advantages to all rows; priorities, where the buffer has them."""
        s = self._settings
        advantages: dict[str, list[float]] = {}
        priorities: dict[str, PriorityTerms] = {}
        for t, v, m in zip(trajectories, self._values(seen), measured, strict=True):
            shaped = distrl_reward(m.reward, m.penalty, s.gamma, s.reward)
            advantages[t.id] = td_error(v, _next(v), shaped, s.gamma).tolist()
            delta = td_error(v, _next(v), m.reward, s.gamma)
            priorities[t.id] = PriorityTerms.of(delta.tolist(), m.ratio.tolist(), m.entropy.tolist())
        replay.set_advantages(advantages)
        if isinstance(replay, PrioritizedReplay):
            replay.update(priorities)

    def instruction_values(self, instructions: Sequence[str]) -> None:
        """DistRL has no value of an instruction alone."""

    def state_dict(self) -> dict[str, Any]:
        return {"encoder": self._encoder.state_dict(), "state": self._state.state_dict(),
                "trajectory": self._trajectory.state_dict()}  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._encoder.load_state_dict(state["encoder"])
        self._state.load_state_dict(state["state"])
        self._trajectory.load_state_dict(state["trajectory"])


def _rewards(trajectory: Trajectory) -> Tensor:
    rewards = torch.zeros(len(trajectory.steps))
    rewards[-1] = trajectory.reward
    return rewards


def _next(value: Tensor) -> Tensor:
    """V(s_{t+1}); 0 after the last step."""
    return torch.cat([value[1:], torch.zeros(1)])
