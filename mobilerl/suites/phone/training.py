"""Tasks of the embedded phone and phones to train on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import cycle, islice
from pathlib import Path

from mobilerl.config import ConfigError, PhoneSection, Recipe, TasksSection
from mobilerl.envs.base import MobileEnv, Task, Transport
from mobilerl.envs.phone import fonts
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.generated import tasks as generated
from mobilerl.envs.phone.tasks import suite

APPS = 2048
"""Number of generated apps to train on beside the phone's own."""
GENERATED = 150
"""Largest number of generated tasks per template for online training, since each takes some 10 ms to make."""


class PhoneSuite:
    """Implements `mobilerl.suites.base.Suite`."""

    extra = ""
    has_server = False
    in_process = True

    def __init__(self, recipe: Recipe) -> None:
        self._tasks, self._phone = recipe.tasks, recipe.phone

    def check(self) -> None:
        _ = self._training

    def open(self, run_dir: Path | None = None) -> tuple[list[Task], None]:
        return self._training + self._mixed_in(), None

    @cached_property
    def _training(self) -> list[Task]:
        return training_tasks(self._tasks)

    def held_out(self, per_template: int) -> dict[str, list[Task]]:
        """Tasks to evaluate on during training: development instances of the training templates, and generated ones."""
        names, first = self._tasks.templates or [t.__name__ for t in suite.templates("train")], suite.DEVELOPMENT_SEEDS
        made = [suite.make_task(name, first + i) for name in names for i in range(per_template)]
        found = {"success_rate": made}
        if self._tasks.mixed_share:
            found["generated"] = generated.held_out_tasks(per_template, APPS, "dev", ("instances",))
        return found

    def demonstrated(self, instances: range) -> list[Task]:
        """Tasks that are demonstrated for SFT: `instances` of each template."""
        chosen = self._tasks.templates
        tasks = suite.train_tasks(len(instances), demo=True, first_seed=instances.start, chosen=chosen)
        suite.check_no_leak(tasks, suite.held_out_tasks(1, "dev", chosen), suite.held_out_tasks(1, chosen=chosen))
        begin, end = (self._generated_of(n, demo=True) for n in (instances.start, instances.stop))
        return tasks + generated.train_tasks(end - begin, APPS, first_seed=generated.DEMONSTRATION_SEEDS + begin)

    def wordings(self, count: int, rng: random.Random) -> Iterator[tuple[str, list[str]]]:
        """`count` goals of training tasks in random order, each with the list of what it asks for."""
        share, others = self._tasks.mixed_share, generated.wordings(count, APPS, rng)  # made as they are taken
        names = self._tasks.templates or [t.__name__ for t in suite.templates("train")]
        for _ in range(count):
            if rng.random() < share:
                yield next(others)
            else:
                task = suite.make_task(rng.choice(names), rng.randrange(suite.HELD_OUT_SEEDS))
                yield task.instruction, [suite.open_task(task).purpose]

    def _mixed_in(self) -> list[Task]:
        """Generated tasks of online training, repeated for their share, since tasks are sampled by their number."""
        each = self._generated_of(self._tasks.per_template)
        made = (generated.train_tasks(min(each, GENERATED), APPS, [name]) for name in generated.TEMPLATES)
        return [task for tasks in made for task in islice(cycle(tasks), each)]

    def _generated_of(self, instances: int, demo: bool | None = None) -> int:
        """Number of tasks of each generated template beside these `instances` of every template of the phone."""
        share = self._tasks.mixed_share
        return round(instances * len(suite.templates("train", demo)) * share / (1 - share) / len(generated.TEMPLATES))

    def env_factory(self) -> Callable[..., MobileEnv]:
        def make(device_id: str, transport: Transport) -> PhoneEnv:
            phone = self._phone
            return PhoneEnv(
                device_id,
                popup_rate=phone.popup_rate,
                languages=phone.languages,
                transport=transport,
                partial_credit=phone.partial_credit,
            )

        return make


make = PhoneSuite


def make_phones(
    phone: PhoneSection, count: int, screenshots: bool = True, first: int = 0, training: bool = False
) -> list[PhoneEnv]:
    """Makes `count` embedded phones, numbered from `first`. Only those for `training` give partial credit.

    Raises ConfigError for screenshots in Arabic on a machine without a font for it.
    """
    if screenshots and "ar" in phone.languages and "Arabic" not in fonts.stack():
        raise ConfigError(
            'phone.languages has "ar", and this machine has no font for Arabic, whose letters would be drawn as boxes: '
            f"apt-get install {fonts.PACKAGES}"
        )
    return [
        PhoneEnv(
            f"sim-{first + i}",
            width=phone.width,
            height=phone.height,
            popup_rate=phone.popup_rate,
            screenshots=screenshots,
            languages=phone.languages,
            partial_credit=training and phone.partial_credit,
        )
        for i in range(count)
    ]


def training_tasks(settings: TasksSection) -> list[Task]:
    """Training tasks, checked against the held-out ones. Raises ConfigError for an unknown template."""
    chosen = settings.templates
    for name in chosen:
        if not suite.is_template(name) or suite.template(name).split != "train":
            raise ConfigError(f"tasks.templates: the phone has no training template {name!r}")
    tasks = suite.train_tasks(settings.per_template, chosen=chosen)
    suite.check_no_leak(tasks, suite.held_out_tasks(1, "dev", chosen), suite.held_out_tasks(1, chosen=chosen))
    return tasks


def is_held_out(task: Task) -> bool:
    if not suite.is_template(task.template):
        raise ValueError(f"{task.id} is of an unknown template")
    return suite.is_held_out(task)
