"""Task sampling: the curriculum over training tasks and its epochs."""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from mobilerl.algorithms.checks import count, number
from mobilerl.algorithms.curriculum import (
    Curriculum,
    FailureCurriculum,
    InstructionValueCurriculum,
    LearnableCurriculum,
)
from mobilerl.config import CurriculumSection
from mobilerl.envs.base import Task
from mobilerl.records import Cause, Group, LostGroup
from mobilerl.training.excluded_tasks import ExcludedTasks

PREFERRED_SHARE = 0.5
"""Fraction of tasks that an `instruction_value` curriculum prefers."""
OTHERS_WEIGHT = 0.2
"""Weight of tasks outside the preferred share of an `instruction_value` curriculum."""


def make_curriculum(tasks: Iterable[str], settings: CurriculumSection) -> Curriculum:
    if settings.type == "learnable":
        return LearnableCurriculum(tasks, settings.watch)
    if settings.type == "instruction_value":
        return InstructionValueCurriculum(tasks, PREFERRED_SHARE, OTHERS_WEIGHT)
    patience = settings.patience if settings.type == "fcf" else sys.maxsize
    return FailureCurriculum(tasks, patience=patience, cooldown=settings.cooldown, revisit_every=settings.revisit_every)


GROUPS_OF_A_TEMPLATE = 2
"""Default number of groups per template in an epoch of the curriculum."""


class TaskSampler:
    """Samples tasks by the curriculum's weights and reports the successes of every epoch to the curriculum.

    A success counts as a reward of 1 and a failure as 0, partial credit or not. An epoch ends after `epoch_groups`
    groups; for the `learnable` curriculum, which keeps running estimates, after each one. `type = "uniform"` is failure
    filtering with infinite patience. An instruction-value curriculum gets the mean of a value function of instructions
    (see `use_values`) over each task's instances; until that returns values, it keeps running means of their rewards.

    Tasks whose groups are repeatedly lost are excluded (`excluded`), which is reported (see `report_to`).
    """

    def __init__(self, tasks: Sequence[Task], settings: CurriculumSection, max_losses: int = 3) -> None:
        self._all, self._settings = tuple(tasks), settings
        self.excluded = ExcludedTasks(max_losses)
        self._say: Callable[[str], None] = lambda text: None
        self._faulty: set[str] = set()
        """Tasks of which a lost group was reported as their own fault."""
        self._arrange()
        self._value_of: Callable[[Sequence[str]], list[float] | None] = lambda instructions: None
        of_epoch = settings.epoch_groups or GROUPS_OF_A_TEMPLATE * len(self._tasks)
        self._epoch_groups = 1 if settings.type == "learnable" else of_epoch
        self._seen = 0
        self._rewards: dict[str, list[float]] = defaultdict(list)

    def report_to(self, say: Callable[[str], None]) -> None:
        """`say` is called with a line for each task that is excluded."""
        self._say = say

    def use_values(self, value_of: Callable[[Sequence[str]], list[float] | None]) -> None:
        """`value_of` gives the value of each instruction, or None while it has none."""
        self._value_of = value_of

    def _arrange(self) -> None:
        """Makes a new curriculum over all tasks."""
        self._tasks: dict[str, list[Task]] = defaultdict(list)
        for task in self._all:
            self._tasks[self.key(task)].append(task)
        self.curriculum = make_curriculum(self._tasks, self._settings)

    def key(self, task: Task) -> str:
        """The task's key in the curriculum, which filters templates with all their instances, or single tasks."""
        return task.id if self._settings.key == "task" else task.template

    @property
    def has_tasks(self) -> bool:
        """Whether any task is left that was neither excluded nor permanently removed by the curriculum."""
        return bool(self._tasks) and bool(self.curriculum.weights())

    def check(self) -> None:
        """Raises InfraError with the reasons if every task was excluded."""
        if not self._tasks:
            raise self.excluded.all_set_aside()

    def record_outcomes(self, groups: Sequence[Group], lost: Sequence[LostGroup]) -> None:
        """Records which groups of a collection were completed and which were lost, before others are sampled."""
        excluded = self.excluded.record_outcomes(groups, lost)
        for task_id in excluded:
            self._set_aside(task_id)
            self._say(f"task {task_id} is excluded for the rest of the run: {self.excluded.set_aside[task_id].reason}")
        faulty = {g.task.id: g.reason for g in lost if g.cause is Cause.TASK}
        for task_id, reason in faulty.items():
            if task_id not in self._faulty and task_id not in self.excluded.set_aside:
                self._say(
                    f"task {task_id} cannot run: {reason}; after {self.excluded.limit} such groups it is excluded"
                )
        self._faulty |= faulty.keys()

    def _set_aside(self, task_id: str) -> None:
        for key, tasks in list(self._tasks.items()):
            tasks[:] = [task for task in tasks if task.id != task_id]
            if not tasks:
                del self._tasks[key]
                self.curriculum.drop(key)
                self._rewards.pop(key, None)

    def sample(self, n: int, rng: random.Random) -> list[Task]:
        """Samples `n` tasks with replacement. Raises InfraError if every task was excluded.

        A key's weight is the curriculum's times its number of tasks, so that a suite of few templates with many
        instances each gets its share of a mixture.
        """
        self.check()
        most = max(map(len, self._tasks.values()))
        sizes = {key: len(tasks) / most for key, tasks in self._tasks.items()}
        return [rng.choice(self._tasks[key]) for key in self.curriculum.sample(n, rng, sizes)]

    def record(self, groups: Iterable[Group]) -> None:
        """Records the successes of complete groups, and updates the curriculum at the end of an epoch."""
        for group in groups:
            if (key := self.key(group.task)) in self._tasks:  # else it was running when its task was excluded
                self._rewards[key].extend(float(t.success) for t in group.trajectories)
            self._seen += 1
            if self._seen >= self._epoch_groups:
                self._end_epoch()
                self._rewards, self._seen = defaultdict(list), 0

    def _end_epoch(self) -> None:
        if isinstance(self.curriculum, InstructionValueCurriculum):
            self.curriculum.update(self._rewards, self._values())
        else:
            self.curriculum.update(self._rewards)

    def _values(self) -> dict[str, float]:
        """Mean V(c) over each task's instances; empty while there are no values."""
        values: dict[str, float] = {}
        for key, tasks in self._tasks.items():
            if (known := self._value_of([t.instruction for t in tasks])) is None:
                return {}
            values[key] = fmean(known)
        return values

    def start_from(self, history: Mapping[str, Any]) -> int:
        """Starts from the curriculum's state in an earlier run; returns how many templates or tasks it knows.

        Raises ValueError if it is of another curriculum or knows none of them.
        """
        self.curriculum.load_state_dict(history)
        known = len(history["tasks"].keys() & self._tasks.keys())
        if not known:
            raise ValueError(f"it knows none of this run's {self._settings.key}s")
        return known

    def state_dict(self) -> dict[str, Any]:
        state = {"curriculum": self.curriculum.state_dict(), "losses": self.excluded.state_dict()}
        return state | {"seen": self._seen, "rewards": dict(self._rewards)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._arrange()
        self.curriculum.load_state_dict(state["curriculum"])
        self._seen = count("seen", state["seen"])
        rewards = {k: [number(f"a reward of {k}", r) for r in v] for k, v in state["rewards"].items()}
        self._rewards = defaultdict(list, rewards)
        if "losses" in state:  # checkpoints of version 0.1 have none
            self.excluded.load_state_dict(state["losses"])
            for task_id in self.excluded.set_aside:
                self._set_aside(task_id)
