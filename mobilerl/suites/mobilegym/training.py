"""Tasks of MobileGym to train on, and its simulated phone."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.config import ConfigError, MobileGymSuiteSection, Recipe
from mobilerl.envs.base import MobileEnv, Task
from mobilerl.envs.browser.web import Web
from mobilerl.envs.mobilegym.bench import Bench
from mobilerl.envs.mobilegym.env import MobileGymEnv, web
from mobilerl.envs.mobilegym.tasks import CheckoutError, Split, find_checkout, find_python, list_tasks

if TYPE_CHECKING:
    from mobilerl.envs.browser.page import Page


class MobileGymSuite:
    """Implements `mobilerl.suites.base.Suite` on pages of Chromium, each with a process of MobileGym's own Python."""

    extra = "browser"
    has_server = False
    in_process = False

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.suite, MobileGymSuiteSection)
        self._recipe, self._settings = recipe, recipe.suite

    def check(self) -> None:
        self.make_tasks("train", 1)

    def open(self, run_dir: Path | None = None) -> tuple[list[Task], None]:
        return self.make_tasks("train", self._recipe.tasks.per_template), None

    def held_out(self, per_template: int) -> dict[str, list[Task]]:
        """The benchmark's tasks for testing, whatever `tasks.templates` says. It has none for development."""
        return {"success_rate": [*self._list("test", per_template)]}

    def make_tasks(self, split: Split, instances: int) -> list[Task]:
        """Tasks of a split, only those in `tasks.templates` if that is given for training. Raises ConfigError."""
        found, wanted = self._list(split, instances), self._recipe.tasks.templates if split == "train" else ()
        known = {task.template for task in found}
        if unknown := next((name for name in wanted if name not in known), None):
            raise ConfigError(f"tasks.templates: MobileGym has no task {unknown!r} to train on; `--split train --list`")
        return [task for task in found if not wanted or task.template in wanted]

    def _list(self, split: Split, instances: int) -> tuple[Task, ...]:
        try:
            return list_tasks(self.checkout, self._python, split, instances, self._settings.sample_seed)
        except CheckoutError as error:
            raise ConfigError(f"suite.checkout: {error}") from None

    @cached_property
    def checkout(self) -> Path:
        try:
            return find_checkout(self._settings.checkout)
        except CheckoutError as error:
            raise ConfigError(f"suite.checkout: {error}") from None

    @property
    def _python(self) -> str:
        try:
            return find_python(self._settings.python)
        except CheckoutError as error:
            raise ConfigError(str(error)) from None

    def env_factory(self) -> Callable[..., MobileEnv]:
        reward, checkout, python = self._settings.reward, self.checkout, self._python
        seen = self._recipe.agent.screenshots > 0 or bool(self._recipe.judge.url or self._recipe.rollout.scorer)

        def make(device_id: str, page: Page) -> MobileGymEnv:
            return MobileGymEnv(device_id, page, Bench(checkout, python), seen, reward)

        return make

    def web(self) -> Web:
        return web(self.checkout, self._settings.scale)


make = MobileGymSuite


def is_held_out(task: Task) -> bool:
    """Whether the benchmark does not have the task for training."""
    return task.params["split"] != "train"
