"""The `Suite` protocol. Suites are registered as sections in `mobilerl.config.suite`, each of which names a module with
`make(recipe) -> Suite` and `is_held_out(task) -> bool`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.named import load_named
from mobilerl.config.suite import OWN, suite_sections
from mobilerl.envs.base import Devices, MobileEnv, Task

TYPES = {"sim": "phone"}
"""Maps `Task.suite` to `suite.type` where they differ."""


class Suite(Protocol):
    """Tasks to train on and the environments that they run in."""

    extra: str
    """Extra of the mobilerl package that the suite needs; "" for none."""
    has_server: bool
    """Whether a device's container also runs a server that sets its tasks up."""
    in_process: bool
    """Whether tasks on embedded devices need nothing outside this process, which makes runs repeatable."""

    def check(self) -> None:
        """Raises ValueError for training tasks that do not exist or are held out for testing."""

    def open(self, run_dir: Path | None = None) -> tuple[list[Task], Devices | Sequence[MobileEnv] | None]:
        """Returns the training tasks, and the devices if the suite brings its own.

        Some devices may be running already; closing them ends these. Raises ConfigError or ValueError if the suite
        cannot be used. It must not be called from a running event loop.
        """

    def held_out(self, per_template: int) -> dict[str, list[Task]]:
        """Tasks to evaluate on during training, by the name of their metric; {} if the suite has none."""

    def env_factory(self) -> Callable[..., MobileEnv]:
        """Returns a function that makes an environment from device id, transport and, with a server, `url`."""


def evaluation_words(recipe: Recipe) -> list[str]:
    """What follows `mobilerl eval` to evaluate on the recipe's suite; [] for a suite of another package."""
    section = recipe.suite
    if section.type not in OWN:
        return []
    name = next((name for name, type in TYPES.items() if type == section.type), section.type)
    servers = [word for server in getattr(section, "servers", ()) for word in ("--server", server)]
    return [name, *filter(None, [getattr(section, "file", "")]), *servers, *_fleet_words(recipe)]


def _fleet_words(recipe: Recipe) -> list[str]:
    """The devices of a run on a file of instructions, which are embedded phones unless its evaluation is told."""
    if recipe.suite.type != "instructions" or recipe.fleet.type == "embedded":
        return []
    if recipe.fleet.type == "adb":
        return ["--serial", *recipe.fleet.serials[: recipe.phone.count]]
    return ["--fleet.type", recipe.fleet.type]


def make_suite(recipe: Recipe) -> Suite:
    return load_named(recipe.suite.module, f"{type(recipe.suite).__name__}.module").make(recipe)


def device_warnings(recipe: Recipe) -> list[str]:
    """Devices that do not answer, and what the others lack for the suite's tasks. Raises ConfigError if none can run.

    Suites that bring their own apps do not ask.
    """
    suite = make_suite(recipe)
    return suite.device_warnings() if hasattr(suite, "device_warnings") else []


def demonstrated_tasks(recipe: Recipe, instances: range | None = None) -> list[Task]:
    """Tasks that experts demonstrate for SFT: `instances` of every template, or all `sft.demos_per_template`.

    Raises ConfigError for a suite without experts.
    """
    suite = make_suite(recipe)
    if not hasattr(suite, "demonstrated"):
        raise ConfigError(f'suite.type = "{recipe.suite.type}" has no experts to learn from: give sft.sources')
    return suite.demonstrated(instances or range(recipe.sft.demos_per_template))


def is_held_out(task: Task) -> bool | None:
    """Whether a task is reserved for testing and must not be learned from; None for a suite that reserves none.

    Raises ValueError if the task's suite has no such template.
    """
    section = suite_sections().get(TYPES.get(task.suite, task.suite))
    return None if section is None else load_named(section.module, f"{section.__name__}.module").is_held_out(task)
