"""Which tasks an iteration plays: the curriculum over training tasks, and the epochs it counts in."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from envs.base import Devices, MobileEnv, Task
from envs.phone.tasks import suite
from mobilerl.algorithms.curriculum import FailureCurriculum, InstructionValueCurriculum
from mobilerl.config import ConfigError, CurriculumSection, Recipe, TasksSection
from mobilerl.records import Group


def open_suite(recipe: Recipe, run_dir: Path | None = None) -> tuple[list[Task], Devices | Sequence[MobileEnv] | None]:
    """The training tasks, and the devices of a suite that brings its own.

    Of AndroidWorld in containers one is running then, and the devices' `close` ends it. Raises ConfigError or
    ValueError. Not to be called from a running event loop.
    """
    if recipe.phone.suite == "sim":
        return training_tasks(recipe.tasks), None
    if recipe.fleet.type == "docker":
        return _open_containers(recipe, run_dir)
    from envs.androidworld.training import open_training

    world, tasks = recipe.androidworld, recipe.tasks
    envs, found = open_training(world.servers, tasks.per_template, tasks.templates, world.seed, world.step_cap)
    return found, envs


def _open_containers(recipe: Recipe, run_dir: Path | None) -> tuple[list[Task], Devices]:
    from envs.androidworld import tasks as androidworld
    from envs.androidworld.training import training_suite
    from mobilerl.fleet import androidworld_pool

    world, tasks = recipe.androidworld, recipe.tasks
    suite = training_suite(tasks.per_template, tasks.templates, world.seed)
    pool, containers = androidworld_pool(recipe, suite, run_dir)
    server = asyncio.run(containers.start_first())
    return androidworld.training_tasks(server.goals, suite.seed, suite.combinations, world.step_cap), pool


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


def make_curriculum(
    tasks: Iterable[str], settings: CurriculumSection
) -> FailureCurriculum | InstructionValueCurriculum:
    if settings.type == "instruction_value":
        return InstructionValueCurriculum(tasks, settings.top_p, settings.rest)
    patience = settings.patience if settings.type == "fcf" else sys.maxsize
    return FailureCurriculum(tasks, patience=patience, cooldown=settings.cooldown, revisit_every=settings.revisit_every)


class TaskSampler:
    """Draws tasks by the curriculum's weights and tells it the rewards of every epoch.

    An epoch ends when `epoch_groups` groups have come back. `type = "uniform"` is failure filtering with a patience
    that never ends. With `value_of`, a critic's value of instructions, an instruction-value curriculum is told the
    mean value of each task's instances; without it keeps running means of their rewards.
    """

    def __init__(self, tasks: Sequence[Task], settings: CurriculumSection) -> None:
        self._by_template = settings.by == "template"
        self._tasks: dict[str, list[Task]] = defaultdict(list)
        for task in tasks:
            self._tasks[self.key(task)].append(task)
        self.curriculum = make_curriculum(self._tasks, settings)
        self.value_of: Callable[[Sequence[str]], list[float] | None] = lambda instructions: None
        self._epoch_groups = settings.epoch_groups or len(tasks)
        self._seen = 0
        self._rewards: dict[str, list[float]] = defaultdict(list)

    def key(self, task: Task) -> str:
        """What the curriculum counts the task by."""
        return task.template if self._by_template else task.id

    @property
    def has_tasks(self) -> bool:
        """False when the curriculum has removed every task for good: there is nothing left to learn from."""
        return bool(self.curriculum.weights())

    def sample(self, n: int, rng: random.Random) -> list[Task]:
        return [rng.choice(self._tasks[key]) for key in self.curriculum.sample(n, rng)]

    def record(self, groups: Iterable[Group]) -> None:
        """Notes the rewards of groups that came back; at an epoch's end the curriculum moves on."""
        for group in groups:
            self._rewards[self.key(group.task)].extend(t.reward for t in group.trajectories)
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
        """Mean V(c) of each task's instances; none while the critic has nothing to say."""
        values: dict[str, float] = {}
        for key, tasks in self._tasks.items():
            if (known := self.value_of([t.instruction for t in tasks])) is None:
                return {}
            values[key] = fmean(known)
        return values

    def state_dict(self) -> dict[str, Any]:
        return {"curriculum": self.curriculum.state_dict(), "seen": self._seen, "rewards": dict(self._rewards)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.curriculum.load_state_dict(state["curriculum"])
        self._seen = state["seen"]
        self._rewards = defaultdict(list, {k: list(v) for k, v in state["rewards"].items()})
