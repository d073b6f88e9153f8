"""The `Suite` protocol. The registry of suites are their sections in `mobilerl.config.suite`, which name a module each,
with `make(recipe) -> Suite` and `is_held_out(task) -> bool`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from envs.base import Devices, MobileEnv, Task
from mobilerl.config import ConfigError, Recipe
from mobilerl.config.suite import suite_sections

TYPES = {"sim": "phone"}
"""`Task.suite` -> `suite.type`, where they differ."""


class Suite(Protocol):
    """Tasks to train on, and the environments they run in."""

    extra: str
    """Extra of the package that the suite needs; "" for none."""
    has_server: bool
    """Whether a device's container also runs a server that sets its tasks up."""
    in_process: bool
    """Whether tasks need nothing outside this process when its devices are embedded: then runs are repeatable."""

    def check(self) -> None:
        """Raises ValueError for training tasks that do not exist or are held out for testing."""

    def open(self, run_dir: Path | None = None) -> tuple[list[Task], Devices | Sequence[MobileEnv] | None]:
        """The training tasks, and the devices of a suite that brings its own.

        Some of these may be running already; closing the devices ends them. Raises ConfigError or ValueError. Must not
        be called from a running event loop.
        """

    def held_out(self, per_template: int) -> dict[str, list[Task]]:
        """Tasks to evaluate on while training, by the name of their metric; {} for a suite that has none."""

    def env_factory(self) -> Callable[..., MobileEnv]:
        """(device id, transport, and `url` with a server) -> an environment on a device of a fleet."""


def make_suite(recipe: Recipe) -> Suite:
    return import_module(recipe.suite.module).make(recipe)


def demonstrated_tasks(recipe: Recipe, instances: range | None = None) -> list[Task]:
    """The tasks that experts show in SFT: these instances of every template, or all `sft.demos_per_template`.

    Raises ConfigError for a suite without experts.
    """
    suite = make_suite(recipe)
    if not hasattr(suite, "demonstrated"):
        raise ConfigError(f'suite.type = "{recipe.suite.type}" has no experts to learn from: give sft.sources')
    return suite.demonstrated(instances or range(recipe.sft.demos_per_template))


def is_held_out(task: Task) -> bool | None:
    """Whether a task is reserved for testing, so that nothing may learn from it; None for a suite that reserves none.

    Raises ValueError for a template that the task's suite does not have.
    """
    section = suite_sections().get(TYPES.get(task.suite, task.suite))
    return None if section is None else import_module(section.module).is_held_out(task)
