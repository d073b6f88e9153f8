"""DigiRL's instruction-level filter, moved from the data to the choice of tasks."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mobilerl.algorithms.checks import number
from mobilerl.algorithms.curriculum.sampling import distinct, systematic_sample
from mobilerl.algorithms.shares import share_of

PRIOR = 0.5
"""Value of a task of which nothing is known: it has the largest score, so every task has its turn."""


class InstructionValueCurriculum:
    """Prefers the tasks that would give DigiRL's instruction filter the most to keep.

    That filter keeps successes with a large A_instr = r_H - V(c) (`advantages.keep_trajectories`); the paper draws its
    tasks uniformly and filters what comes back. Here the same quantity chooses what is collected. A rollout of a task
    of value v succeeds with probability v and then has A_instr = 1 - v, so what it is expected to give is

        score(c) = V(c) (1 - V(c))

    largest for tasks solved about half of the time, zero for those solved always or never. The ceil(top_p * N) tasks of
    highest score, and any that tie with the last of them, have weight 1. The others have weight `rest`, which keeps
    their values up to date: nothing is ever removed.

    V(c) is fed in one of two ways, see `update`: the instruction value function, which generalises between tasks, or a
    running mean of each task's own rewards, which needs no model. An epoch ends with each call of `update`.

    Args:
        task_ids: all tasks.
        top_p: share of the tasks in (0, 1] that are preferred.
        rest: weight in (0, 1] of the others.
        rate: share in (0, 1] that an epoch's mean reward has in the running mean.
    """

    def __init__(self, task_ids: Iterable[str], top_p: float, rest: float = 0.1, rate: float = 0.3) -> None:
        self._values = dict.fromkeys(distinct(task_ids), PRIOR)
        for name, share in (("top_p", top_p), ("rest", rest), ("rate", rate)):
            if not 0.0 < share <= 1.0:
                raise ValueError(f"curriculum: {name} must be in (0, 1], got {share}")
        self.top_p = top_p
        self.rest = rest
        self.rate = rate

    @property
    def active(self) -> frozenset[str]:
        """The preferred tasks; none when all were dropped."""
        if not self._values:
            return frozenset()
        scores = {task: value * (1.0 - value) for task, value in self._values.items()}
        threshold = sorted(scores.values(), reverse=True)[share_of(len(scores), self.top_p) - 1]
        return frozenset(task for task, score in scores.items() if score >= threshold - 1e-12)

    @property
    def cooling(self) -> frozenset[str]:
        """Tasks of weight `rest`."""
        return frozenset(self._values) - self.active

    @property
    def removed(self) -> frozenset[str]:
        """Always empty."""
        return frozenset()

    def counts(self) -> dict[str, int]:
        """How many tasks are `active`, `cooling` and `removed`; every task is in exactly one."""
        active = len(self.active)
        return {"active": active, "cooling": len(self._values) - active, "removed": 0}

    def weights(self) -> dict[str, float]:
        """Weights in (0, 1] for the current epoch, in the order of `task_ids`."""
        active = self.active
        return {task: 1.0 if task in active else self.rest for task in self._values}

    def sample(self, n: int, rng: random.Random) -> list[str]:
        """n task ids in random order; task i's expected count is exactly n * w_i / sum(w), and its count one of the two
        integers next to that."""
        return systematic_sample(self.weights(), n, rng)

    def update(self, epoch_rewards: Mapping[str, Sequence[float]], values: Mapping[str, float] | None = None) -> None:
        """Ends an epoch. A task in `values` takes that value; any other that was sampled moves towards its mean reward.

        Args:
            epoch_rewards: rewards in [0, 1] of every finished trajectory, before shaping, by task id. A task that is
                absent or has no rewards keeps its value.
            values: V(c) in [0, 1] of the instruction value function, for all tasks or some.

        ValueError for an unknown task or a number outside [0, 1]; nothing has changed then.
        """
        values = values or {}
        for task, numbers in [*epoch_rewards.items(), *((task, [value]) for task, value in values.items())]:
            if task not in self._values:
                raise ValueError(f"curriculum: rewards or a value for unknown task {task!r}")
            if not all(0.0 <= number <= 1.0 for number in numbers):
                raise ValueError(f"curriculum: task {task!r} has a reward or value outside [0, 1]: {list(numbers)}")
        for task, old in self._values.items():
            rewards = epoch_rewards.get(task, ())
            if task in values:
                self._values[task] = float(values[task])
            elif len(rewards):
                self._values[task] = old + self.rate * (math.fsum(rewards) / len(rewards) - old)

    def drop(self, task: str) -> None:
        """Forgets a task that cannot be played. When it was the last, nothing is left to sample."""
        del self._values[task]

    def state_dict(self) -> dict[str, Any]:
        """The value of every task, as JSON-able numbers. Settings are not part of it."""
        return {"values": dict(self._values)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over the values of a run, which may have had other tasks: theirs are ignored, new ones start afresh.

        ValueError if the state is not one of this class; nothing has changed then.
        """
        try:
            saved = {task: float(number(task, value)) for task, value in state["values"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"curriculum state is not one of InstructionValueCurriculum: {error}") from None
        self._values = {task: saved.get(task, PRIOR) for task in self._values}
