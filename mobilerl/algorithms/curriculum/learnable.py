"""A curriculum of learnable tasks, which are solved sometimes."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mobilerl.algorithms.checks import number
from mobilerl.algorithms.curriculum.sampling import NO_SCALE, distinct, scaled, systematic_sample

MEMORY = 20
"""Number of episodes that a task's success rate is estimated from, older ones counting less and less."""
MARGIN = 0.1
"""Success rates below this, and above 1 minus this, are those of unsolved and of solved tasks."""


@dataclass(slots=True)
class _Record:
    successes: float = 0.0
    episodes: float = 0.0
    """Both discounted."""

    @property
    def rate(self) -> float:
        return (self.successes + 0.5) / (self.episodes + 1.0)

    @property
    def learnable(self) -> bool:
        return MARGIN <= self.rate <= 1.0 - MARGIN


class LearnableCurriculum:
    """Samples tasks in proportion to the variance of their success, and watches those without any.

    Group-relative advantages come from groups in which some episodes succeed and some fail: of two episodes of a task
    with success rate p, a fraction 2 p (1 - p) of the pairs. From the newest k successes among m episodes,

        s <- d^m s + k,    n <- d^m n + m,    p = (s + 1/2) / (n + 1),    d = 1 - 1 / MEMORY
        weight = p (1 - p)    for learnable tasks, MARGIN <= p <= 1 - MARGIN

    The other tasks, solved and unsolved ones, share a fraction `watch` of all draws equally, so that it shows when one
    becomes learnable. A task that was never sampled has p = 1/2, the largest weight. If all tasks are learnable or none
    is, `watch` has no effect. No task is ever removed.

    Args:
        task_ids: all tasks.
        watch: fraction in (0, 1) of the draws.
    """

    def __init__(self, task_ids: Iterable[str], watch: float = 0.05) -> None:
        self._tasks = {task: _Record() for task in distinct(task_ids)}
        if not 0.0 < watch < 1.0:
            raise ValueError(f"curriculum: watch must be in (0, 1), got {watch}")
        self.watch = watch

    @property
    def active(self) -> frozenset[str]:
        """The learnable tasks."""
        return frozenset(task for task, record in self._tasks.items() if record.learnable)

    @property
    def cooling(self) -> frozenset[str]:
        """Solved and unsolved tasks, which are only watched."""
        return frozenset(self._tasks) - self.active

    @property
    def removed(self) -> frozenset[str]:
        """Always empty, since no task is removed."""
        return frozenset()

    def counts(self) -> dict[str, int]:
        """Number of tasks that are `active`, `cooling` and `removed`; every task is exactly one of these."""
        active = len(self.active)
        return {"active": active, "cooling": len(self._tasks) - active, "removed": 0}

    def rates(self) -> dict[str, float]:
        """Estimated success rate p in (0, 1) of each task."""
        return {task: record.rate for task, record in self._tasks.items()}

    def weights(self) -> dict[str, float]:
        """Positive weights, in the order of `task_ids`; only their proportions matter."""
        active = self.active
        weights = {task: rate * (1.0 - rate) for task, rate in self.rates().items() if task in active}
        watched = len(self._tasks) - len(active)
        if not watched:
            return weights
        share = self.watch / (1.0 - self.watch) * sum(weights.values()) / watched if weights else 1.0
        return {task: weights.get(task, share) for task in self._tasks}

    def sample(self, n: int, rng: random.Random, scale: Mapping[str, float] = NO_SCALE) -> list[str]:
        """Samples n task ids in random order, each task n * w_i / sum(w) times, randomly rounded up or down.

        `scale` has factors of the weights, by task id.
        """
        return systematic_sample(scaled(self.weights(), scale), n, rng)

    def update(self, successes: Mapping[str, Sequence[float]]) -> None:
        """Updates the estimates with the newest episodes: 1 for a success and 0 for a failure, by task id.

        Raises ValueError for an unknown task or another number, before anything is changed.
        """
        for task, outcomes in successes.items():
            if task not in self._tasks:
                raise ValueError(f"curriculum: episodes of unknown task {task!r}")
            if not set(outcomes) <= {0, 1}:
                raise ValueError(f"curriculum: task {task!r} has a success that is not 0 or 1: {list(outcomes)}")
        for task, outcomes in successes.items():
            record, left = self._tasks[task], (1.0 - 1.0 / MEMORY) ** len(outcomes)
            record.successes = left * record.successes + sum(outcomes)
            record.episodes = left * record.episodes + len(outcomes)

    def drop(self, task: str) -> None:
        """Drops a task that cannot be played. After the last one nothing is left to sample."""
        del self._tasks[task]

    def state_dict(self) -> dict[str, Any]:
        """Discounted counts of every task as JSON numbers. Settings are not included."""
        return {"counts": {task: asdict(record) for task, record in self._tasks.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the counts of a run. Tasks that the run did not have start afresh; its other tasks are ignored.

        Raises ValueError if the state is not of this class, before anything is changed.
        """
        try:
            saved = {task: _Record(**record) for task, record in state["counts"].items()}
            for task, record in saved.items():
                if not 0.0 <= number(task, record.successes) <= number(task, record.episodes):
                    raise ValueError(f"{task} has {record.successes} successes in {record.episodes} episodes")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"curriculum state is not one of LearnableCurriculum: {error}") from None
        self._tasks = {task: saved.get(task, _Record()) for task in self._tasks}
