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
from mobilerl.records import Group, LostGroup
from mobilerl.train.losses import TaskLosses

OTHERS_WEIGHT = 0.2
"""Weight of the tasks that an `instruction_value` curriculum does not prefer."""


def open_suite(recipe: Recipe, run_dir: Path | None = None) -> tuple[list[Task], Devices | Sequence[MobileEnv] | None]:
    """The training tasks, and the devices of a suite that brings its own.

    Of AndroidWorld in containers one is running then, and the devices' `close` ends it. Raises ConfigError or
    ValueError. Not to be called from a running event loop.
    """
    if recipe.phone.suite == "sim":
        return training_tasks(recipe.tasks), None
    from envs.androidworld.tasks import FREE_BY_DESIGN
    from envs.androidworld.training import open_training

    world, tasks, free = recipe.androidworld, recipe.tasks, recipe.plays_free_rewards
    if not free and (left_out := FREE_BY_DESIGN & (set(tasks.templates) or FREE_BY_DESIGN)):
        print(f"left out, since their reward is free by design: {', '.join(sorted(left_out))}")
    if recipe.fleet.type == "docker":
        return _open_containers(recipe, run_dir)
    envs, found = open_training(
        world.servers, tasks.per_template, tasks.templates, world.seed, world.step_cap, free_reward=free
    )
    return found, envs


def _open_containers(recipe: Recipe, run_dir: Path | None) -> tuple[list[Task], Devices]:
    from envs.androidworld import tasks as androidworld
    from envs.androidworld.training import training_suite
    from mobilerl.fleet import androidworld_pool

    world, tasks = recipe.androidworld, recipe.tasks
    suite = training_suite(tasks.per_template, tasks.templates, world.seed, recipe.plays_free_rewards)
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
        return InstructionValueCurriculum(tasks, settings.top_p, OTHERS_WEIGHT)
    patience = settings.patience if settings.type == "fcf" else sys.maxsize
    return FailureCurriculum(tasks, patience=patience, cooldown=settings.cooldown, revisit_every=settings.revisit_every)


class TaskSampler:
    """Draws tasks by the curriculum's weights and tells it the rewards of every epoch.

    An epoch ends when `epoch_groups` groups have come back. `type = "uniform"` is failure filtering with a patience
    that never ends. With `value_of`, a critic's value of instructions, an instruction-value curriculum is told the
    mean value of each task's instances; without it keeps running means of their rewards.

    Tasks whose groups are lost again and again are set aside (`losses`), and `say` is told of each.
    """

    def __init__(self, tasks: Sequence[Task], settings: CurriculumSection, max_losses: int = 0) -> None:
        self._all, self._settings = tuple(tasks), settings
        self.losses = TaskLosses(max_losses)
        self.say: Callable[[str], None] = lambda text: None
        self._arrange()
        self.value_of: Callable[[Sequence[str]], list[float] | None] = lambda instructions: None
        self._epoch_groups = settings.epoch_groups or len(tasks)
        self._seen = 0
        self._rewards: dict[str, list[float]] = defaultdict(list)

    def _arrange(self) -> None:
        """All tasks, and a new curriculum of them."""
        self._tasks: dict[str, list[Task]] = defaultdict(list)
        for task in self._all:
            self._tasks[self.key(task)].append(task)
        self.curriculum = make_curriculum(self._tasks, self._settings)

    def key(self, task: Task) -> str:
        """What the curriculum counts the task by."""
        return task.template if self._settings.by == "template" else task.id

    @property
    def has_tasks(self) -> bool:
        """False when every task was set aside, or removed by the curriculum for good: nothing is left to play."""
        return bool(self._tasks) and bool(self.curriculum.weights())

    def check(self) -> None:
        """Raises InfraError, with the reasons, when every task was set aside."""
        if not self._tasks:
            raise self.losses.all_set_aside()

    def ended(self, groups: Sequence[Group], lost: Sequence[LostGroup]) -> None:
        """Takes in what became of the groups of one collection, before others are sampled."""
        for task_id in self.losses.ended(groups, lost):
            self._set_aside(task_id)
            self.say(f"task {task_id} is set aside for the rest of the run: {self.losses.set_aside[task_id].reason}")

    def _set_aside(self, task_id: str) -> None:
        for key, tasks in list(self._tasks.items()):
            tasks[:] = [task for task in tasks if task.id != task_id]
            if not tasks:
                del self._tasks[key]
                self.curriculum.drop(key)
                self._rewards.pop(key, None)

    def sample(self, n: int, rng: random.Random) -> list[Task]:
        """Raises InfraError when every task was set aside."""
        self.check()
        return [rng.choice(self._tasks[key]) for key in self.curriculum.sample(n, rng)]

    def record(self, groups: Iterable[Group]) -> None:
        """Notes the rewards of groups that came back; at an epoch's end the curriculum moves on."""
        for group in groups:
            if (key := self.key(group.task)) in self._tasks:  # else it was under way when its task was set aside
                self._rewards[key].extend(t.reward for t in group.trajectories)
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
        state = {"curriculum": self.curriculum.state_dict(), "losses": self.losses.state_dict()}
        return state | {"seen": self._seen, "rewards": dict(self._rewards)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._arrange()
        self.curriculum.load_state_dict(state["curriculum"])
        self._seen = state["seen"]
        self._rewards = defaultdict(list, {k: list(v) for k, v in state["rewards"].items()})
        if "losses" in state:  # checkpoints of version 0.1 have none
            self.losses.load_state_dict(state["losses"])
            for task_id in self.losses.set_aside:
                self._set_aside(task_id)
