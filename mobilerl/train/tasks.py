"""Which tasks an iteration plays: the curriculum over training tasks, and the epochs it counts in."""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envs.base import MobileEnv, Task
from envs.phone.tasks import suite
from mobilerl.algorithms.curriculum import FailureCurriculum
from mobilerl.config import ConfigError, CurriculumSection, Recipe, TasksSection
from mobilerl.records import Group


def open_suite(recipe: Recipe) -> tuple[list[Task], Sequence[MobileEnv] | None]:
    """The training tasks, and the devices of a suite that brings its own.

    Raises ConfigError. Not to be called from a running event loop.
    """
    if recipe.phone.suite == "sim":
        return training_tasks(recipe.tasks), None
    from envs.androidworld.training import open_training

    world, tasks = recipe.androidworld, recipe.tasks
    envs, found = open_training(world.servers, tasks.per_template, tasks.templates, world.seed, world.step_cap)
    return found, envs


def training_tasks(settings: TasksSection) -> list[Task]:
    """The recipe's training tasks, checked against the held-out ones. Raises ConfigError."""
    known = {t.__name__ for t in suite.templates("train")}
    for name in settings.templates:
        if name not in known:
            raise ConfigError(f"tasks.templates: there is no training template {name!r} in the suite `sim`")
    wanted = settings.templates or sorted(known)
    tasks = [t for t in suite.train_tasks(settings.per_template) if t.template in wanted]
    suite.check_no_leak(tasks, suite.test_tasks(1))
    return tasks


class TaskSampler:
    """Draws tasks by the curriculum's weights and tells it the rewards of every epoch.

    An epoch ends when `epoch_groups` groups have come back. `type = "uniform"` is the same curriculum with a patience
    that never ends.
    """

    def __init__(self, tasks: Sequence[Task], settings: CurriculumSection) -> None:
        self._by_template = settings.by == "template"
        self._tasks: dict[str, list[Task]] = defaultdict(list)
        for task in tasks:
            self._tasks[self._key(task)].append(task)
        self.curriculum = FailureCurriculum(
            self._tasks,
            patience=settings.patience if settings.type == "fcf" else sys.maxsize,
            cooldown=settings.cooldown,
            revisit_every=settings.revisit_every,
        )
        self._epoch_groups = settings.epoch_groups or len(tasks)
        self._seen = 0
        self._rewards: dict[str, list[float]] = defaultdict(list)

    def _key(self, task: Task) -> str:
        return task.template if self._by_template else task.id

    @property
    def has_tasks(self) -> bool:
        """False when the curriculum has removed every task: there is nothing left to learn from."""
        return bool(self.curriculum.weights())

    def sample(self, n: int, rng: random.Random) -> list[Task]:
        return [rng.choice(self._tasks[key]) for key in self.curriculum.sample(n, rng)]

    def record(self, groups: Iterable[Group]) -> None:
        """Notes the rewards of groups that came back; at an epoch's end the curriculum moves on."""
        for group in groups:
            self._rewards[self._key(group.task)].extend(t.reward for t in group.trajectories)
            self._seen += 1
            if self._seen >= self._epoch_groups:
                self.curriculum.update(self._rewards)
                self._rewards, self._seen = defaultdict(list), 0

    def state_dict(self) -> dict[str, Any]:
        return {"curriculum": self.curriculum.state_dict(), "seen": self._seen, "rewards": dict(self._rewards)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.curriculum.load_state_dict(state["curriculum"])
        self._seen = state["seen"]
        self._rewards = defaultdict(list, {k: list(v) for k, v in state["rewards"].items()})
