"""A file of instructions as a training suite, on any device of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from envs.base import MobileEnv, Task, Transport
from envs.instructions.env import InstructionEnv
from envs.instructions.tasks import Instruction, InstructionFile, make_task, read
from envs.live_device import Settle
from envs.phone.apps.catalogue import APP_NAMES, APPS
from envs.phone.phone import Phone
from envs.phone.transport import InProcessTransport
from mobilerl.config import ConfigError, InstructionsSuiteSection, Recipe

STILL = Settle(limit_s=0.0)
"""Embedded phones do not move by themselves."""


class InstructionsSuite:
    """Implements `mobilerl.suites.base.Suite`."""

    extra = ""
    has_server = False
    in_process = False

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.suite, InstructionsSuiteSection)
        self._recipe, self._settings = recipe, recipe.suite
        self._judged = recipe.judge.reward or bool(recipe.collect.scorer)
        """Whether the reward comes from elsewhere than the tasks' checks."""

    def check(self) -> None:
        self._tasks("train")

    def open(self, run_dir: Path | None = None) -> tuple[list[Task], Sequence[MobileEnv] | None]:
        phone = self._recipe.phone
        if self._recipe.fleet.type != "embedded":
            return self._tasks("train"), None
        apps = {**APP_NAMES, **self._file().apps}
        return self._tasks("train"), [
            InstructionEnv(
                f"sim-{i}",
                InProcessTransport(Phone(APPS, phone.width, phone.height), f"sim-{i}"),
                apps,
                self._free_reward,
                STILL,
            )
            for i in range(phone.count)
        ]

    def held_out(self, per_template: int) -> dict[str, list[Task]]:
        """The tasks of the split `test`, each once."""
        tasks = self._tasks("test")
        return {"success_rate": tasks} if tasks else {}

    def env_factory(self) -> Callable[..., MobileEnv]:
        apps, free = self._file().apps, self._free_reward

        def make(device_id: str, transport: Transport) -> InstructionEnv:
            return InstructionEnv(device_id, transport, apps, free)

        return make

    @property
    def _free_reward(self) -> bool:
        return self._settings.free_reward or self._judged

    def _file(self) -> InstructionFile:
        return read(self._settings.file)

    def _tasks(self, split: str) -> list[Task]:
        """Raises ConfigError for a file that cannot be trained on."""
        try:
            found = self._file()
        except ValueError as error:
            raise ConfigError(f"suite.file: {error}") from None
        wanted = self._recipe.tasks.templates
        for name in wanted:
            if name not in {task.id for task in found.task}:
                raise ConfigError(f"tasks.templates: {self._settings.file} has no task {name!r}")
        tasks = [task for task in found.task if task.split == split and (not wanted or task.id in wanted)]
        if not tasks and split == "train":
            raise ConfigError(f'suite.file: {self._settings.file} has no tasks to train on (split = "train")')
        for task in tasks:
            self._can_be_scored(task)
        return [make_task(task) for task in tasks]

    def _can_be_scored(self, task: Instruction) -> None:
        if not task.checked and not self._judged:
            raise ConfigError(
                f"suite.file: task {task.id!r} of {self._settings.file} has neither `check` nor `answer`: give one, or "
                "let a judge (judge.reward) or your own code (collect.scorer) give the reward"
            )


make = InstructionsSuite


def is_held_out(task: Task) -> bool:
    return task.params["split"] == "test"
