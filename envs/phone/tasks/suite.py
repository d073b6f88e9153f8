"""The suite `sim`: every template of the embedded phone, its instances, and the guard between train and test.

An instance is (template, params, seed). Its parameters are hashed into five buckets: bucket 0 is held out, so no
parameters of a test instance are ever trained on; test seeds lie in a range of their own, so no phone content is
either. Templates whose `split` is "test" are never trained on at all.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence

from mobilerl.envs.base import Task
from mobilerl.envs.phone.apps.catalogue import APP_NAMES
from mobilerl.envs.phone.tasks.base import Template
from mobilerl.envs.phone.tasks.catalogue import TEMPLATES

SUITE = "sim"
HELD_OUT_SEEDS = 1_000_000
"""Test instances use seeds from here on; training seeds lie below."""
BUCKETS = 5
DRAWS = 500


def templates(split: str = "all", demo: bool | None = None) -> tuple[type[Template], ...]:
    """Templates of a split ("train", "test" or "all"), optionally only those the demonstrations show (or not)."""
    if split not in ("train", "test", "all"):
        raise ValueError(f"split is {split!r}; choose train, test or all")
    return tuple(t for t in TEMPLATES.values() if split in ("all", t.split) and (demo is None or t.demo == demo))


def template(name: str) -> type[Template]:
    try:
        return TEMPLATES[name]
    except KeyError:
        raise KeyError(f"no task template is called {name!r}; `mobilerl eval sim --list` shows them all") from None


def held_out(name: str, params: dict) -> bool:
    digest = hashlib.sha256(json.dumps([name, params], sort_keys=True).encode()).digest()
    return digest[0] % BUCKETS == 0


def make_task(name: str, seed: int) -> Task:
    """The instance of a template for a seed: held-out parameters from `HELD_OUT_SEEDS` on, training ones below.

    Raises ValueError for a template with too few parameters to have both.
    """
    cls = template(name)
    rng = random.Random(f"{name}/{seed}")
    wanted = seed >= HELD_OUT_SEEDS
    drawn: set[str] = set()
    for _ in range(DRAWS):
        params = cls.sample(rng)
        if held_out(name, params) == wanted:
            break
        drawn.add(json.dumps(params, sort_keys=True))
    else:
        raise ValueError(
            f"template {name}: {DRAWS} draws gave {len(drawn)} different parameters, none of which is for "
            f"{'testing' if wanted else 'training'}: a fifth of all, chosen by their hash, is held out. Give its "
            "`params` more values, or draw from more in its `sample`: of 20 nearly always some are held out"
        )
    phrase = rng.choice(cls.wordings())
    return Task(
        id=f"{SUITE}/{name}/{seed}",
        template=name,
        instruction=phrase.format(**params),
        params=params,
        seed=seed,
        max_steps=2 * cls.steps + 2,
        suite=SUITE,
        app=cls.app,
        feasible=cls.feasible,
    )


def phone_seed(task: Task) -> int:
    """The seed of what the phone holds and of which pop-ups come, held-out instances in a range of their own.

    It differs by template: instances of different templates have equal seeds, and if they met the same few phones, an
    evaluation would rest on little.
    """
    drawn = int.from_bytes(hashlib.sha256(f"{task.template}/{task.seed}".encode()).digest()[:3], "big")
    return drawn + (2**24 if task.seed >= HELD_OUT_SEEDS else 0)


def open_task(task: Task) -> Template:
    """An episode's task."""
    return template(task.template)(task.params)


def reset_options(task: Task) -> tuple[str, ...]:
    """Options of `sim reset` that bring a phone into the task's first state, before `Template.setup`."""
    return ("--seed", str(phone_seed(task)))


def app_names(task: Task) -> Mapping[str, str]:
    """Name under the icon -> package."""
    return APP_NAMES


def train_tasks(per_template: int, demo: bool | None = None, first_seed: int = 0) -> list[Task]:
    """Training instances of the training templates."""
    names = [t.__name__ for t in templates("train", demo)]
    return [make_task(n, first_seed + i) for n in names for i in range(per_template)]


def test_tasks(per_template: int, split: str = "all") -> list[Task]:
    """Held-out instances: of the training templates ("train"), of those never trained on ("test"), or of both."""
    names = [t.__name__ for t in templates(split)]
    return [make_task(n, HELD_OUT_SEEDS + i) for n in names for i in range(per_template)]


def check_no_leak(train: Iterable[Task], test: Sequence[Task]) -> None:
    """Raises ValueError when a test instance's seed or parameters, or a test-only template, occur in training."""
    trained = list(train)
    seeds = {t.seed for t in trained}
    seen = {(t.template, json.dumps(dict(t.params), sort_keys=True)) for t in trained}
    for task in trained:
        if template(task.template).split == "test":
            raise ValueError(f"leak: {task.id} is of a template that is reserved for testing")
    for task in test:
        if task.seed in seeds:
            raise ValueError(f"leak: seed {task.seed} of test task {task.id} is trained on")
        if (task.template, json.dumps(dict(task.params), sort_keys=True)) in seen:
            raise ValueError(f"leak: the parameters of test task {task.id} are trained on")
