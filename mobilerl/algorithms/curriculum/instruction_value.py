"""DigiRL's instruction-level filter, applied to the choice of tasks instead of the data."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mobilerl.algorithms.checks import number
from mobilerl.algorithms.curriculum.sampling import NO_SCALE, distinct, scaled, systematic_sample
from mobilerl.algorithms.shares import share_of

PRIOR = 0.5
"""Initial value of a task. It has the largest score, so that every task is sampled at first."""


class InstructionValueCurriculum:
    """Prefers the tasks from which DigiRL's instruction filter would keep the most.

    That filter keeps successes with a large A_instr = r_H - V(c) (`advantages.keep_trajectories`). The paper samples
    tasks uniformly and filters the trajectories; here the same quantity selects the tasks. A rollout of a task of value
    v succeeds with probability v and then has A_instr = 1 - v, so its expected contribution is

        score(c) = V(c) (1 - V(c))

    which is largest for tasks solved half of the time and zero for those solved always or never. The ceil(top_p * N)
    tasks with the highest scores, and ties with the last of them, have weight 1. The others have weight `rest`, which
    keeps their values up to date. No task is ever removed.

    V(c) comes either from the instruction value function, which generalizes between tasks, or from a running mean of
    each task's rewards, which needs no model (see `update`). Each call of `update` ends an epoch.

    Args:
        task_ids: all tasks.
        top_p: fraction in (0, 1] of the tasks that are preferred.
        rest: weight in (0, 1] of the other tasks.
        rate: weight in (0, 1] of an epoch's mean reward in the running mean.
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
        """The preferred tasks; empty if all were dropped."""
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
        """Always empty, since no task is removed."""
        return frozenset()

    def counts(self) -> dict[str, int]:
        """Number of tasks that are `active`, `cooling` and `removed`; every task is exactly one of these."""
        active = len(self.active)
        return {"active": active, "cooling": len(self._values) - active, "removed": 0}

    def weights(self) -> dict[str, float]:
        """Weights in (0, 1] for the current epoch, in the order of `task_ids`."""
        active = self.active
        return {task: 1.0 if task in active else self.rest for task in self._values}

    def sample(self, n: int, rng: random.Random, scale: Mapping[str, float] = NO_SCALE) -> list[str]:
        """Samples n task ids in random order, each task n * w_i / sum(w) times, randomly rounded up or down.

        `scale` has factors of the weights, by task id.
        """
        return systematic_sample(scaled(self.weights(), scale), n, rng)

    def update(self, epoch_rewards: Mapping[str, Sequence[float]], values: Mapping[str, float] | None = None) -> None:
        """Ends an epoch: tasks in `values` take that value, others that were sampled move towards their mean reward.

        Args:
            epoch_rewards: unshaped rewards in [0, 1] of all finished trajectories by task id. A task that is absent or
                has no rewards keeps its value.
            values: V(c) in [0, 1] from the instruction value function, for some or all tasks.

        Raises ValueError for an unknown task or a number outside [0, 1], before anything is changed.
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
        """Drops a task that cannot be played. After the last one nothing is left to sample."""
        del self._values[task]

    def state_dict(self) -> dict[str, Any]:
        """Value of every task as JSON numbers. Settings are not included."""
        return {"values": dict(self._values)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the values of a run. Tasks that the run did not have start afresh; its other tasks are ignored.

        Raises ValueError if the state is not of this class, before anything is changed.
        """
        try:
            saved = {task: float(number(task, value)) for task, value in state["values"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"curriculum state is not one of InstructionValueCurriculum: {error}") from None
        self._values = {task: saved.get(task, PRIOR) for task in self._values}
