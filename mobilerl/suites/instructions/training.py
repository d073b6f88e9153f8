"""A file of instructions as a training suite, on any fleet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path

from mobilerl.config import ConfigError, InstructionsSuiteSection, Recipe
from mobilerl.envs.base import MobileEnv, Task, Transport
from mobilerl.envs.instructions.env import InstructionEnv
from mobilerl.envs.instructions.tasks import Instruction, InstructionFile, make_task, read
from mobilerl.envs.live_device import Settle
from mobilerl.envs.phone.apps.catalogue import APP_NAMES, APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.transport import InProcessTransport
from mobilerl.suites.fleet import fleet_type
from mobilerl.suites.instructions.packages import Findings, ask, findings
from mobilerl.system.terminal import say

STILL = Settle(limit_s=0.0)
"""Embedded phones need no time to settle, as their screens do not move by themselves."""


class InstructionsSuite:
    """Implements `mobilerl.suites.base.Suite`."""

    extra = ""
    has_server = False
    in_process = False

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.suite, InstructionsSuiteSection)
        self._recipe, self._settings = recipe, recipe.suite
        self.judged = recipe.judge.reward or bool(recipe.rollout.scorer)
        """Whether a judge or scorer replaces the tasks' own checks; tasks that are solved from the start then count."""

    def check(self) -> None:
        self._training_tasks()

    def open(self, run_dir: Path | None = None) -> tuple[list[Task], Sequence[MobileEnv] | None]:
        """Leaves out, and names, tasks whose app no device has."""
        tasks = self._training_tasks()
        for line in self._lacking():  # a device that does not answer is named by the pool
            say(line)
        return [task for task in tasks if task.id not in self._findings.unrunnable], self.phones()

    def device_warnings(self) -> list[str]:
        """Devices that do not answer, and what the others lack. Raises ConfigError if no training task can run."""
        return [*self._findings.silent, *self._lacking()]

    def _lacking(self) -> list[str]:
        """Packages that the file names and devices lack. Raises ConfigError if no training task can run for that."""
        found, tasks = self._findings, self._training_tasks()
        if all(task.id in found.unrunnable for task in tasks):
            raise ConfigError(f"suite.file: no task of {self.file} can run: {found.unrunnable[tasks[0].id]}")
        return [*(f"{reason}: the task is left out" for reason in found.unrunnable.values()), *found.warnings]

    @cached_property
    def _findings(self) -> Findings:
        return self.findings(self._select_tasks(("train", "test"), self._recipe.tasks.templates))

    def findings(self, tasks: Sequence[Task]) -> Findings:
        """What the devices lack for these tasks."""
        packages = ask(fleet_type(self._recipe.fleet).transports(self._recipe))
        return findings(packages, tasks, self._read().apps)

    def held_out(self, per_template: int) -> dict[str, list[Task]]:
        """Tasks of the split `test`, each once."""
        tasks = self._select_tasks(("test",), self._recipe.tasks.templates)
        tasks = [task for task in tasks if task.id not in self._findings.unrunnable] if tasks else []
        return {"success_rate": tasks} if tasks else {}

    @property
    def embedded(self) -> bool:
        return self._recipe.fleet.type == "embedded"

    def phones(self) -> Sequence[MobileEnv] | None:
        """Embedded phones; None if the devices come from a fleet."""
        if not self.embedded:
            return None
        phone, apps = self._recipe.phone, {**APP_NAMES, **self._read().apps}
        return [
            InstructionEnv(
                f"sim-{i}",
                InProcessTransport(Phone(APPS, phone.width, phone.height), f"sim-{i}"),
                apps,
                self.judged,
                STILL,
            )
            for i in range(self._recipe.fleet.count)
        ]

    def env_factory(self) -> Callable[..., MobileEnv]:
        apps, free = self._read().apps, self.judged

        def make(device_id: str, transport: Transport) -> InstructionEnv:
            return InstructionEnv(device_id, transport, apps, free)

        return make

    @property
    def file(self) -> Path:
        return Path(self._settings.file)

    def _read(self) -> InstructionFile:
        """Reads the file. Raises ConfigError if it is not valid."""
        try:
            return read(self.file)
        except ValueError as error:
            raise ConfigError(f"suite.file: {error}") from None

    def _training_tasks(self) -> list[Task]:
        return self.tasks(("train",), self._recipe.tasks.templates)

    def tasks(self, splits: Collection[str], names: Collection[str]) -> list[Task]:
        """Tasks of these splits, or only those with these names. Raises ConfigError if there are none."""
        if tasks := self._select_tasks(splits, names):
            return tasks
        raise ConfigError(f"suite.file: {self.file} has no such tasks of the split {' or '.join(splits)}")

    def _select_tasks(self, splits: Collection[str], names: Collection[str]) -> list[Task]:
        found = self._read().task
        for name in names:
            if name not in {task.id for task in found}:
                raise ConfigError(
                    f"suite.file: {self.file} has no task {name!r}; it has {', '.join(t.id for t in found)}"
                )
        tasks = [task for task in found if task.split in splits and (not names or task.id in names)]
        for task in tasks:
            self._can_be_scored(task)
        return [make_task(task) for task in tasks]

    def _can_be_scored(self, task: Instruction) -> None:
        if not task.checked and not self.judged:
            raise ConfigError(
                f"suite.file: task {task.id!r} of {self._settings.file} has neither `check` nor `answer`: give one, or "
                "let a judge (judge.reward) or your own code (rollout.scorer) give the reward"
            )


make = InstructionsSuite


def is_held_out(task: Task) -> bool:
    return task.params["split"] == "test"
