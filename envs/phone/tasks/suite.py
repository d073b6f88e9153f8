"""The suite `sim`: every template of the embedded phone, its instances, and the guard between the splits.

An instance is (template, params, seed). What is held out is what a goal says: a hash of its template's first wording
with the goal's values decides for which split it is, so that no wording of a held-out goal is ever trained on. Where
the wordings of a template name fewer than `FEWEST` different values, the hash is of the goal itself. Every split has
seeds of its own, so no phone content is shared either. Templates whose `split` is not "train" are never trained on at
all: those of "dev" are for choosing settings, those of "test" for results.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import Any, Literal, get_args

from mobilerl.envs.base import Task
from mobilerl.envs.phone.apps.catalogue import APP_NAMES, EXTRA_APPS
from mobilerl.envs.phone.apps.launcher import Launcher
from mobilerl.envs.phone.tasks.base import Template
from mobilerl.envs.phone.tasks.catalogue import ONLY_NAMED, TEMPLATES

SUITE = "sim"
Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
HELD_OUT_SEEDS = 1_000_000
"""Test instances use seeds from here on; training seeds lie below."""
DEVELOPMENT_SEEDS = 1_500_000
"""Instances for development, such as evaluations during training, use seeds from here on."""
FIRST_SEEDS: dict[Split, int] = {"train": 0, "dev": DEVELOPMENT_SEEDS, "test": HELD_OUT_SEEDS}
BUCKETS = 10
HELD_OUT_BUCKETS: dict[int, Split] = {0: "test", 1: "test", 2: "dev"}
FEWEST = 40
DRAWS = 500


def templates(split: str = "all", demo: bool | None = None) -> tuple[type[Template], ...]:
    """Templates of a split, or of "all", optionally only those the demonstrations show (or not)."""
    if split not in (*SPLITS, "all"):
        raise ValueError(f"split is {split!r}; choose {', '.join(SPLITS)} or all")
    return tuple(t for t in TEMPLATES.values() if split in ("all", t.split) and (demo is None or t.demo == demo))


def is_template(name: str) -> bool:
    """Whether there is a template of this name, ONLY_NAMED included."""
    return name in ONLY_NAMED or name in TEMPLATES


def template(name: str) -> type[Template]:
    try:
        return ONLY_NAMED.get(name) or TEMPLATES[name]
    except KeyError:
        raise KeyError(f"no task template is called {name!r}; `mobilerl eval sim --list` shows them all") from None


def seed_split(seed: int) -> Split:
    """The split whose instances have this seed."""
    return "train" if seed < HELD_OUT_SEEDS else "test" if seed < DEVELOPMENT_SEEDS else "dev"


@cache
def _names_many(name: str) -> bool:
    """Whether the wordings of a template name at least `FEWEST` different values."""
    rng, cls = random.Random(name), template(name)
    said = {cls.wordings()[0].format(**cls.sample(rng)) for _ in range(DRAWS)}
    return len(said) >= FEWEST


def goal_split(name: str, params: Mapping[str, Any], goal: str) -> Split:
    """For which split a goal of a template is, by the hash of what it says."""
    said = template(name).wordings()[0].format(**params) if _names_many(name) else goal
    digest = hashlib.sha256(said.casefold().encode()).digest()
    return HELD_OUT_BUCKETS.get(int.from_bytes(digest[:4], "big") % BUCKETS, "train")


def is_held_out(task: Task) -> bool:
    """Whether the task's template, goal or seed is of another split than "train"."""
    of_goal = goal_split(task.template, task.params, task.instruction)
    return {template(task.template).split, of_goal, seed_split(task.seed)} != {"train"}


def make_task(name: str, seed: int) -> Task:
    """The instance of a template for a seed: with a goal of the split whose seed it is.

    Raises ValueError for a template with too few goals to have some for every split.
    """
    cls, wanted = template(name), seed_split(seed)
    rng = random.Random(f"{name}/{seed}")
    drawn: set[str] = set()
    for _ in range(DRAWS):
        params = cls.sample(rng)
        goal = rng.choice(cls.wordings()).format(**params)
        if goal_split(name, params, goal) == wanted:
            break
        drawn.add(goal)
    else:
        raise ValueError(
            f"template {name}: {DRAWS} draws gave {len(drawn)} different goals, none of which is for {wanted}: "
            "three tenths of all, chosen by their hash, are held out (test: two, dev: one). Give its `params` more "
            "values, or its `instructions` more wordings: of 40 nearly always some are for every split"
        )
    return Task(
        id=f"{SUITE}/{name}/{seed}",
        template=name,
        instruction=goal,
        params=params,
        seed=seed,
        max_steps=2 * cls.steps + 2,
        suite=SUITE,
        app=cls.app,
        feasible=cls.feasible,
    )


def phone_seed(task: Task) -> int:
    """The seed of what the phone holds and of which pop-ups come, every split in a range of its own.

    It differs by template: instances of different templates have equal seeds, and if they met the same few phones, an
    evaluation would rest on little.
    """
    drawn = int.from_bytes(hashlib.sha256(f"{task.template}/{task.seed}".encode()).digest()[:3], "big")
    return drawn + 2**24 * SPLITS.index(seed_split(task.seed))


def open_task(task: Task) -> Template:
    """An episode's task."""
    return template(task.template)(task.params)


def reset_options(task: Task) -> tuple[str, ...]:
    """Options of `sim reset` that bring a phone into the task's first state, before `Template.setup`."""
    installed = template(task.template).installed
    return ("--seed", str(phone_seed(task)), *(("--apps", installed) if installed else ()))


def app_names(task: Task) -> Mapping[str, str]:
    """Name under the icon -> package."""
    installed = template(task.template).installed
    return {app.label: app.package for app in (Launcher, EXTRA_APPS[installed])} if installed else APP_NAMES


def train_tasks(
    per_template: int, demo: bool | None = None, first_seed: int = 0, chosen: Sequence[str] = ()
) -> list[Task]:
    """Training instances of the training templates, or of those among `chosen`, which may also be of ONLY_NAMED."""
    names = _choose(templates("train", demo), chosen)
    return [make_task(n, first_seed + i) for n in names for i in range(per_template)]


def _choose(listed: Iterable[type[Template]], chosen: Sequence[str]) -> list[str]:
    """Names of the `listed` templates, or of those among `chosen`, which may also be of ONLY_NAMED."""
    names = [t.__name__ for t in listed]
    return [n for n in (*names, *ONLY_NAMED) if n in chosen] if chosen else names


def held_out_tasks(per_template: int, split: Split = "test", chosen: Sequence[str] = ()) -> list[Task]:
    """Instances for "dev" or "test": of the training templates and of those that this split has for itself, or of those
    among `chosen`, which may also be of ONLY_NAMED."""
    names = _choose((*templates("train"), *templates(split)), chosen)
    return [make_task(n, FIRST_SEEDS[split] + i) for n in names for i in range(per_template)]


def check_no_leak(train: Iterable[Task], *held_out: Iterable[Task]) -> None:
    """Raises ValueError when two of these splits share a goal's text, a seed or a template that is not for training, or
    when such a template is in training."""
    splits = [list(train), *map(list, held_out)]
    for task in splits[0]:
        if template(task.template).split != "train":
            raise ValueError(f"leak: {task.id} is of a template that is reserved for {template(task.template).split}")
    for one, other in combinations(splits, 2):
        seeds, goals = {t.seed for t in one}, {t.instruction.casefold() for t in one}
        reserved = {t.template for t in one if template(t.template).split != "train"}
        for task in other:
            if task.seed in seeds:
                raise ValueError(f"leak: seed {task.seed} of the held-out task {task.id} is in another split too")
            if task.instruction.casefold() in goals:
                raise ValueError(f"leak: the goal of the held-out task {task.id} is in another split too")
            if task.template in reserved:
                raise ValueError(f"leak: the template of the held-out task {task.id} is in another split too")
