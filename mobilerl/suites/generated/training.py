"""Generated tasks for training."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from mobilerl.config import ConfigError, GeneratedSuiteSection, Recipe
from mobilerl.envs.base import Task
from mobilerl.envs.phone.generated import tasks
from mobilerl.suites.phone.training import PhoneSuite


class GeneratedSuite(PhoneSuite):
    """Implements `mobilerl.suites.base.Suite` on embedded phones."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        assert isinstance(recipe.suite, GeneratedSuiteSection)
        self._apps = recipe.suite.apps

    def check(self) -> None:
        self._templates()

    def open(self, run_dir: Path | None = None) -> tuple[list[Task], None]:
        return tasks.train_tasks(self._tasks.per_template, self._apps, self._templates()), None

    def held_out(self, per_template: int) -> dict[str, list[Task]]:
        """Tasks of the development split by held-out part; the test split is only for final results."""
        return {
            part: tasks.held_out_tasks(per_template, self._apps, "dev", (part,), self._templates())
            for part in tasks.HELD_OUT
        }

    def demonstrated(self, instances: range) -> list[Task]:
        """Tasks to demonstrate, in the same apps as those of `open` but different from them."""
        return tasks.train_tasks(
            len(instances), self._apps, self._templates(), first_seed=tasks.DEMONSTRATION_SEEDS + instances.start
        )

    def wordings(self, count: int, rng: random.Random) -> Iterator[tuple[str, list[str]]]:
        return tasks.wordings(count, self._apps, rng)

    def _templates(self) -> Sequence[str]:
        for name in self._tasks.templates:
            if name not in tasks.TEMPLATES:
                raise ConfigError(
                    f"tasks.templates: there are no generated tasks {name!r}; choose {', '.join(tasks.TEMPLATES)}"
                )
        return self._tasks.templates or tasks.TEMPLATES


make = GeneratedSuite


def is_held_out(task: Task) -> bool:
    if task.template not in tasks.TEMPLATES:
        raise ValueError(f"{task.id} is of an unknown template")
    return tasks.is_held_out(task)
