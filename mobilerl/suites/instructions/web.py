"""A file of instructions on a web app as a training suite, on pages of Chromium."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.config import ConfigError, InstructionsSuiteSection, Recipe
from mobilerl.envs.base import MobileEnv, Task
from mobilerl.envs.browser.web import Web
from mobilerl.envs.instructions.tasks import InstructionFile
from mobilerl.envs.instructions.web import WebInstruction, check_answers, make_web_task, read_web, web_of
from mobilerl.envs.instructions.web_env import WebInstructionEnv
from mobilerl.suites.instructions.file import FileOfInstructions
from mobilerl.suites.instructions.packages import Findings

if TYPE_CHECKING:
    from mobilerl.envs.browser.page import Page


class WebInstructionsSuite(FileOfInstructions[WebInstruction]):
    """Implements `mobilerl.suites.base.Suite`."""

    extra = "browser"
    embedded = False

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        assert isinstance(recipe.suite, InstructionsSuiteSection)
        self.url = recipe.suite.url

    def read(self) -> InstructionFile[WebInstruction]:
        return read_web(self.file)

    def make_task(self, instruction: WebInstruction) -> Task:
        if not instruction.checked and not self.judged:
            raise ConfigError(
                f"suite.file: task {instruction.id!r} of {self.file} has neither `check` nor `answer`: give one, or "
                "let a judge (judge.reward) or your own code (rollout.scorer) give the reward"
            )
        return make_web_task(instruction, self.url)

    def open(self, run_dir: Path | None = None) -> tuple[list[Task], Sequence[MobileEnv] | None]:
        """Raises ConfigError if the app does not answer."""
        tasks = super().open(run_dir)
        self.check_answers()
        return tasks

    def check_answers(self) -> None:
        """Raises ConfigError if the app does not answer."""
        try:
            check_answers(self.url)
        except ValueError as error:
            raise ConfigError(f"suite.url: {error}") from None

    def findings(self, tasks: Sequence[Task]) -> Findings:
        """None: pages have no packages."""
        return Findings()

    def env_factory(self) -> Callable[..., MobileEnv]:
        seen = self._recipe.agent.screenshots > 0 or bool(self._recipe.judge.url or self._recipe.rollout.scorer)

        def make(device_id: str, page: Page) -> WebInstructionEnv:
            return WebInstructionEnv(device_id, page, self.url, seen, self.judged)

        return make

    def web(self) -> Web:
        return web_of(self.url, self._recipe.phone.width, self._recipe.phone.height)
