"""What suites whose tasks are in a file have in common."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

from mobilerl.config import ConfigError, FileSuite, Recipe
from mobilerl.envs.base import MobileEnv, Task
from mobilerl.envs.instructions.tasks import BareInstruction, InstructionFile
from mobilerl.suites.fleet import fleet_type
from mobilerl.suites.instructions.packages import Findings, ask, findings
from mobilerl.system.terminal import say

T = TypeVar("T", bound=BareInstruction)


class FileOfInstructions(Generic[T]):
    """Implements `mobilerl.suites.base.Suite`, but for `env_factory`."""

    extra = ""
    has_server = False
    in_process = False

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.suite, FileSuite)
        self._recipe, self.file = recipe, Path(recipe.suite.file)
        self.judged = recipe.judge.reward or bool(recipe.rollout.scorer)
        """Whether a judge or scorer replaces the tasks' own checks; tasks that are solved from the start then count."""

    def read(self) -> InstructionFile[T]:
        """Reads the file. Raises ValueError if it is not valid."""
        raise NotImplementedError

    def make_task(self, instruction: T) -> Task:
        """Raises ConfigError for a task whose reward nothing gives."""
        raise NotImplementedError

    def phones(self) -> Sequence[MobileEnv] | None:
        """Embedded phones; None if the devices come from a fleet."""
        return None

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

    def _read(self) -> InstructionFile[T]:
        """As `read`, but raises ConfigError."""
        try:
            return self.read()
        except ConfigError:
            raise
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
        return [self.make_task(task) for task in found if task.split in splits and (not names or task.id in names)]


def is_held_out(task: Task) -> bool:
    return task.params["split"] == "test"
