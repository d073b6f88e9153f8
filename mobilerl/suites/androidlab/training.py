"""Instructions in AndroidLab's apps as a training suite, on devices that are set up as in its evaluation."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mobilerl.config import AndroidLabSuiteSection, ConfigError, Recipe
from mobilerl.envs.androidlab.checkout import TASKS, Checkout, read_checkout
from mobilerl.envs.androidlab.env import AndroidLabEnv, LabSettings
from mobilerl.envs.androidlab.instructions import LabInstruction, check_held_out
from mobilerl.envs.androidlab.phone import LabPhone, console_of
from mobilerl.envs.base import MobileEnv, Task, Transport
from mobilerl.envs.console import Console
from mobilerl.envs.instructions.tasks import InstructionFile, read_as
from mobilerl.suites.instructions.file import FileOfInstructions
from mobilerl.suites.instructions.packages import Findings
from mobilerl.system.terminal import say

NO_COMMANDS: Mapping[str, Any] = {"reset": (), "start": (), "check": ()}


class AndroidLabSuite(FileOfInstructions[LabInstruction]):
    """Implements `mobilerl.suites.base.Suite`."""

    extra = "androidlab"
    has_console = True

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.suite, AndroidLabSuiteSection)
        super().__init__(recipe)
        self._settings = recipe.suite

    @cached_property
    def _checkout(self) -> Checkout:
        try:
            return read_checkout(self._settings.checkout)
        except ValueError as error:
            raise ConfigError(f"suite.checkout: {error}") from None

    @cached_property
    def _apps(self) -> dict[str, str]:
        """Names of apps -> packages."""
        return self._checkout.packages | self._checkout.apps

    def check(self) -> None:
        super().check()
        serials = self._recipe.fleet.serials if self._settings.snapshot else ()
        if lacking := next((serial for serial in serials if console_of(serial) is None), None):
            raise ConfigError(f"suite.snapshot: {lacking} is no emulator with a console, such as emulator-5554")

    def open(self, run_dir: Path | None = None) -> tuple[list[Task], Sequence[MobileEnv] | None]:
        if (found := len(self._checkout.tasks)) != TASKS:
            say(f"suite.checkout has {found} tasks, AndroidLab has {TASKS}: only those of the checkout are held out")
        return super().open(run_dir)

    def read(self) -> InstructionFile[LabInstruction]:
        """All tasks, including those of the split `test`, are compared with the benchmark's."""
        return self._tasks

    @cached_property
    def _tasks(self) -> InstructionFile[LabInstruction]:
        def check(task: LabInstruction) -> None:
            if task.app not in self._apps:
                near = difflib.get_close_matches(task.app, self._apps, n=1) or sorted(self._checkout.apps)
                raise ValueError(f"app: AndroidLab has no app {task.app!r}, but {', '.join(near)}")
            check_held_out(task.instruction, self._checkout.tasks)

        return read_as(LabInstruction, self.file, check)

    def make_task(self, instruction: LabInstruction) -> Task:
        if not self.judged:
            raise ConfigError(
                "the tasks of suite.file have no checks: let a judge (judge.reward) or your own code (rollout.scorer) "
                "give the reward"
            )
        return instruction.task(self._apps[instruction.app])

    def findings(self, tasks: Sequence[Task]) -> Findings:
        return super().findings([replace(task, app=task.params["package"], params=NO_COMMANDS) for task in tasks])

    def env_factory(self) -> Callable[..., MobileEnv]:
        from mobilerl.envs.androidlab.adb import LabTransport

        checkout, settings, known = self._checkout, self._settings, self._apps
        lab = LabSettings(settings.interval_s, not settings.from_home, settings.launch_wait_s)

        def make(device_id: str, transport: Transport, console: Console | None = None) -> AndroidLabEnv:
            rooting = LabTransport(transport.serial)
            console = console or console_of(transport.serial)
            phone = LabPhone(rooting, known, rooting.root, console, settings.snapshot)
            return AndroidLabEnv(device_id, phone, checkout.apps, settings=lab)

        return make


make = AndroidLabSuite


def is_held_out(task: Task) -> bool:
    """Tasks of the benchmark itself have no split."""
    return task.params.get("split") != "train"
