"""Tasks of MiniWoB++ to train on, and its pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.config import ConfigError, MiniWoBSuiteSection, Recipe
from mobilerl.envs.base import MobileEnv, Task
from mobilerl.envs.browser.web import Web
from mobilerl.envs.miniwob import tasks
from mobilerl.envs.miniwob.env import MiniWoBEnv, web
from mobilerl.suites.miniwob.expert import OracleExpert, OwnPage
from mobilerl.suites.miniwob.oracle import SCRIPTS

if TYPE_CHECKING:
    from mobilerl.envs.browser.page import Page


class MiniWoBSuite:
    """Implements `mobilerl.suites.base.Suite` on pages of Chromium."""

    extra = "browser"
    has_server = False
    in_process = False

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.suite, MiniWoBSuiteSection)
        self._recipe, self._settings = recipe, recipe.suite

    def check(self) -> None:
        self.templates()

    def open(self, run_dir: Path | None = None) -> tuple[list[Task], None]:
        return self.make_tasks("train", range(self._recipe.tasks.per_template)), None

    def held_out(self, per_template: int) -> dict[str, list[Task]]:
        """Instances with the seeds for development; those for testing are only for final results."""
        return {"success_rate": self.make_tasks("dev", range(per_template))}

    def demonstrated(self, instances: range) -> list[Task]:
        """Tasks that the oracle demonstrates, among those to train on."""
        names = [name for name in self.templates() if name in SCRIPTS]
        return tasks.make_tasks(names, "demo", instances, self._settings.max_steps)

    def make_tasks(self, split: tasks.Split, numbers: range, names: Sequence[str] = ()) -> list[Task]:
        return tasks.make_tasks(names or self.templates(), split, numbers, self._settings.max_steps)

    def templates(self) -> list[str]:
        """Names of the tasks to train on. Raises ConfigError."""
        chosen = named_tasks(self._settings.subset)
        known, wanted = frozenset(named_tasks("all")), self._recipe.tasks.templates
        if unknown := next((name for name in wanted if name not in known), None):
            raise ConfigError(f"tasks.templates: MiniWoB++ has no task {unknown!r}; `mobilerl eval miniwob --list`")
        return list(wanted) or chosen

    def env_factory(self) -> Callable[..., MobileEnv]:
        reward = self._settings.reward
        seen = self._recipe.agent.screenshots > 0 or bool(self._recipe.judge.url or self._recipe.rollout.scorer)

        def make(device_id: str, page: Page) -> MiniWoBEnv:
            return MiniWoBEnv(device_id, page, seen, reward)

        return make

    def demonstrator(self) -> MobileEnv:
        """A page for the oracle's demonstrations."""
        from mobilerl.envs.browser.chromium import Chromium

        return OwnPage(Chromium(self.web(), self._recipe.fleet.program), self._recipe.agent.screenshots > 0)

    def make_expert(self, env: MobileEnv) -> OracleExpert:
        return OracleExpert()

    def web(self) -> Web:
        return web()


def named_tasks(subset: str) -> list[str]:
    """The tasks of `suite.subset`. Raises ConfigError if the package is not installed."""
    try:
        every = tasks.templates()
        listed = {"all": every, "mobile": tasks.mobile_templates(), "scripted": [n for n in every if n in SCRIPTS]}
        return list(listed[subset])
    except tasks.NoMiniWoB as error:
        raise ConfigError(f'suite.type = "miniwob": {error}') from None


make = MiniWoBSuite


def is_held_out(task: Task) -> bool:
    return tasks.is_held_out(task)
