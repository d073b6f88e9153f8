"""Generated tasks for training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mobilerl.config import ConfigError, GeneratedSuiteSection, Recipe
from mobilerl.envs.base import Task
from mobilerl.envs.phone.generated import tasks
from mobilerl.envs.phone.tasks import suite
from mobilerl.suites.phone.training import PhoneSuite, development_tasks


class GeneratedSuite(PhoneSuite):
    """Implements `mobilerl.suites.base.Suite` on embedded phones, with the phone's own tasks among the others."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        assert isinstance(recipe.suite, GeneratedSuiteSection)
        self._apps, self._share = recipe.suite.apps, recipe.suite.phone_share

    def check(self) -> None:
        self._templates()

    def open(self, run_dir: Path | None = None) -> tuple[list[Task], None]:
        made = tasks.train_tasks(self._tasks.per_template, self._apps, self._templates())
        return made + self._own(range(self._tasks.per_template)), None

    def held_out(self, per_template: int) -> dict[str, list[Task]]:
        """Tasks of the development split by held-out part; the test split is only for final results."""
        made = {
            part: tasks.held_out_tasks(per_template, self._apps, "dev", (part,), self._templates())
            for part in tasks.HELD_OUT
        }
        return made | ({"phone": development_tasks(per_template)} if self._share else {})

    def demonstrated(self, instances: range) -> list[Task]:
        """Tasks to demonstrate, in the same apps as those of `open` but different from them."""
        first = DEMONSTRATION_SEEDS + instances.start
        made = tasks.train_tasks(len(instances), self._apps, self._templates(), first_seed=first)
        return made + self._own(instances, demo=True)

    def _own(self, instances: range, demo: bool | None = None) -> list[Task]:
        """Tasks of the phone's own apps: as many to these `instances` of every generated template as the share says."""
        if not self._share:
            return []
        templates = suite.templates("train", demo)
        each = len(self._templates()) * self._share / (1 - self._share) / len(templates)
        seeds = range(round(instances.start * each), round(instances.stop * each))
        made = suite.train_tasks(len(seeds), demo, seeds.start)
        suite.check_no_leak(made, suite.test_tasks(1))
        return made

    def _templates(self) -> Sequence[str]:
        for name in self._tasks.templates:
            if name not in tasks.TEMPLATES:
                raise ConfigError(
                    f"tasks.templates: there are no generated tasks {name!r}; choose {', '.join(tasks.TEMPLATES)}"
                )
        return self._tasks.templates or tasks.TEMPLATES


make = GeneratedSuite
DEMONSTRATION_SEEDS = 100_000


def is_held_out(task: Task) -> bool:
    if task.template not in tasks.TEMPLATES:
        raise ValueError(f"{task.id} is of an unknown template")
    return tasks.is_held_out(task)
