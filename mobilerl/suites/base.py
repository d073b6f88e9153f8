"""The `Suite` protocol. Suites are registered as sections in `mobilerl.config.suite`, each of which names a module with
`make(recipe) -> Suite` and `is_held_out(task) -> bool`, and the class of its evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.marks import EVAL_PLUGIN
from mobilerl.config.named import load_named
from mobilerl.config.suite import OWN, suite_name, suite_sections
from mobilerl.envs.base import Action, Devices, MobileEnv, Observation, Task
from mobilerl.policy.screen import Screen


class Suite(Protocol):
    """Tasks to train and to evaluate on, and the environments that they run in."""

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
        """Tasks to evaluate on during training, by the name of their metric; {} if the suite has none.

        `mobilerl eval NAME` runs them as well, for a suite without an evaluation of its own.
        """

    def env_factory(self) -> Callable[..., MobileEnv]:
        """Returns a function that makes an environment from device id, transport and, with a server, `url`."""


class Expert(Protocol):
    """Demonstrates one episode for SFT. A suite with experts has `demonstrated(instances)`, the tasks. Unless they are
    those of the embedded phone it also is a `Demonstrating`. It may have `wordings(count, rng)`, goals of training
    tasks, each with the list of what it asks for, for `sft.goal_samples`."""

    @property
    def thought(self) -> str:
        """What must not be forgotten at the newest action, such as a value for another app."""

    @property
    def purpose(self) -> str:
        """What the newest action is for, in the same words for every wording of the goal."""

    def act(self, task: Task, observation: Observation, screen: Screen) -> Action: ...


@runtime_checkable
class Demonstrating(Protocol):
    """A suite that brings its own experts."""

    def demonstrator(self) -> MobileEnv:
        """The environment to demonstrate tasks in."""

    def make_expert(self, env: MobileEnv) -> Expert:
        """The expert of the episode that the environment has begun."""


def settings_command(name: str) -> str:
    """The command of `mobilerl eval NAME` in the marks of settings, which do not know suites of installed packages."""
    return f"eval {name}" if name in map(suite_name, OWN.values()) else EVAL_PLUGIN


def make_suite(recipe: Recipe) -> Suite:
    return load_named(recipe.suite.module, f"{type(recipe.suite).__name__}.module").make(recipe)


def evaluations(recipe: Recipe) -> tuple[str, ...]:
    """The NAME of each `mobilerl eval NAME` that tells what the recipe teaches, the main one first."""
    name = suite_name(type(recipe.suite))
    return (name, "generated") if name == "sim" and recipe.tasks.mixed_share else (name,)


def device_warnings(suite: Suite) -> list[str]:
    """Devices that do not answer, and what the others lack for the suite's tasks. Raises ConfigError if none can run.

    Suites that bring their own apps do not ask.
    """
    return suite.device_warnings() if hasattr(suite, "device_warnings") else []


def demonstrated_tasks(recipe: Recipe, instances: range | None = None) -> list[Task]:
    """Tasks that experts demonstrate for SFT: `instances` of every template, or all `sft.demos_per_template`.

    Raises ConfigError for a suite without experts.
    """
    suite = make_suite(recipe)
    if not hasattr(suite, "demonstrated"):
        raise ConfigError(f'suite.type = "{recipe.suite.type}" has no experts to learn from')
    return suite.demonstrated(range(recipe.sft.demos_per_template) if instances is None else instances)


def has_demonstrations(recipe: Recipe) -> bool:
    """Whether SFT learns from demonstrations by the suite's experts."""
    return recipe.sft.demos_per_template > 0 and hasattr(make_suite(recipe), "demonstrated")


def is_held_out(task: Task) -> bool | None:
    """Whether a task is reserved for testing and must not be learned from; None for a suite that reserves none.

    Raises ValueError if the task's suite has no such template.
    """
    section = next((found for found in suite_sections().values() if suite_name(found) == task.suite), None)
    return None if section is None else load_named(section.module, f"{section.__name__}.module").is_held_out(task)
