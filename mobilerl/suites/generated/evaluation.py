"""Evaluation on generated tasks, on all held-out parts of the development or test split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from mobilerl.config import ConfigError, GeneratedSuiteSection, Recipe
from mobilerl.envs.base import Task
from mobilerl.envs.phone.generated import tasks
from mobilerl.envs.phone.generated.tasks import HeldOut
from mobilerl.eval.report import EpisodeResult
from mobilerl.suites.phone.evaluation import PhonePlan
from mobilerl.suites.plan import results_by_part

HEADLINE = "instances"
"""The part whose figures are the headline of results.json; the others are in `parts`."""
CHECKED = 2
"""Number of training tasks per template that the leak guard compares with the held-out ones."""


class GeneratedPlan(PhonePlan):
    """Tasks in apps generated from a seed."""

    suite: str = "generated"
    split: Literal["train", "dev", "test"] = "test"
    """`dev` to choose settings, `test` for results, `train` for the training tasks."""
    parts: tuple[HeldOut, ...] = tasks.HELD_OUT
    """Held-out parts to evaluate on; not used with the split `train`."""

    def tasks(self, recipe: Recipe) -> list[Task]:
        for name in self.templates:
            if name not in tasks.TEMPLATES:
                raise ConfigError(f"there are no generated tasks {name!r}; choose {', '.join(tasks.TEMPLATES)}")
        apps, names = _apps(recipe), self.templates or tasks.TEMPLATES
        if self.split == "train":
            return tasks.train_tasks(self.instances, apps, names)
        return tasks.held_out_tasks(self.instances, apps, self.split, self.parts, names)

    def guard(self, recipe: Recipe) -> dict[str, Any]:
        apps = _apps(recipe)
        trained = tasks.train_tasks(CHECKED, apps) + tasks.train_tasks(
            CHECKED, apps, first_seed=tasks.DEMONSTRATION_SEEDS
        )
        tested = tasks.held_out_tasks(1, apps, "test")
        tasks.check_no_leak(trained, tested)
        return {
            "split": self.split,
            "parts": list(self.parts),
            "training_apps": apps,
            "leak_guard": f"passed: {len(trained)} training and {len(tested)} held-out tasks are of disjoint hashes",
        }

    def part(self, task: Task) -> str:
        return task.id.split("/")[2] if self.split != "train" else "train"

    def results(self, episodes: Sequence[EpisodeResult], protocol: dict[str, Any]) -> dict[str, Any]:
        return results_by_part(self.suite, protocol, episodes, HEADLINE)


def _apps(recipe: Recipe) -> int:
    """Number of training apps in the recipe, or the default if it trains on another suite."""
    suite = recipe.suite
    return suite.apps if isinstance(suite, GeneratedSuiteSection) else GeneratedSuiteSection().apps
