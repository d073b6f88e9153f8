"""AndroidWorld's tasks: what its server does not tell (budgets, apps), seeds, and the guard between train and test.

An instance is (task name, suite seed, index). The instance's own seed is drawn from the three, whatever other tasks or
how many instances there are, so that equal seeds mean equal instances everywhere. As its authors advise, training and
testing are kept apart by seed: `EVAL_SEEDS` are never trained on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from envs.base import Task

SUITE = "androidworld"
EVAL_SEED = 30
"""The seed of AndroidWorld's own runner and of MobileRL's."""
EVAL_SEEDS = frozenset({EVAL_SEED, 42})
"""Reserved for testing: published numbers are of 30, and a server that nobody told a seed has 42."""
WALL_CLOCK_GOALS = frozenset({"MarkorCreateFolder"})
"""Tasks whose goal names the moment at which the suite was made: it differs between servers, and between restarts."""
SENTINELS = ("ContactsAddContact", "MarkorCreateNote", "OsmAndMarker", "RetroCreatePlaylist", "SimpleSmsSend")
"""Tasks whose goals differ from seed to seed: they tell whether a server still has the suite it was given."""


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """`budget` is in steps: int(10 x complexity), as AndroidWorld allots them."""

    apps: tuple[str, ...]
    budget: int
    difficulty: str
    needs_answer: bool


def _read() -> tuple[str, dict[str, TaskFacts]]:
    data = json.loads(resources.files(__package__).joinpath("tasks.json").read_text())
    return data["commit"], {name: TaskFacts(**{**t, "apps": tuple(t["apps"])}) for name, t in data["tasks"].items()}


COMMIT, FACTS = _read()
"""The commit of AndroidWorld that the facts are of, and the facts of its 116 tasks by name."""
ANSWER_TASKS = frozenset(name for name, facts in FACTS.items() if facts.needs_answer)
FREE_BY_DESIGN = frozenset(name for name in FACTS if name.startswith("System") and name.endswith("Verify"))
"""Tasks whose set-up brings the phone into the state that is asked for: an agent that does nothing is rewarded."""


def budgets_hash(names: Iterable[str] = FACTS) -> str:
    """Names a table of step budgets."""
    table = {name: FACTS[name].budget for name in sorted(names)}
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:16]


def instance_seed(seed: int, name: str, index: int) -> int:
    """The seed of one instance: AndroidWorld draws its parameters from it."""
    return int(hashlib.sha256(f"{seed}_{name}_{index}".encode()).hexdigest(), 16) % 2**32


def check_names(names: Iterable[str]) -> None:
    """Raises ValueError for a name that is not one of the 116."""
    for name in names:
        if name not in FACTS:
            raise ValueError(f"no AndroidWorld task is called {name!r} (commit {COMMIT}); see docs/androidworld.md")


def describe_difference(found: Sequence[str]) -> str:
    """How a server's task list differs from the bundled one, in one line; "" when it does not."""
    parts = []
    for what, names in (("has", set(found) - FACTS.keys()), ("lacks", FACTS.keys() - set(found))):
        if names:
            some = ", ".join(sorted(names)[:5])
            parts.append(f"{what} {some}{f' and {len(names) - 5} more' if len(names) > 5 else ''}")
    return "; ".join(parts)


def make_task(name: str, index: int, goal: str, seed: int, combinations: int, step_cap: int | None = None,
              run: int = 0) -> Task:  # fmt: skip
    """One instance. `run` tells apart episodes that are to be reported apart; it changes nothing on the phone."""
    facts = FACTS[name]
    return Task(
        id=f"{SUITE}/{name}/{seed}/{index}",
        template=name,
        instruction=goal,
        params={"index": index, "combinations": combinations, "run": run},
        seed=seed,
        max_steps=facts.budget if step_cap is None else min(facts.budget, step_cap),
        suite=SUITE,
        app=facts.apps[0],
    )


def check_training_seed(seed: int) -> None:
    """Raises ValueError for a seed that evaluations use."""
    if seed in EVAL_SEEDS:
        raise ValueError(f"leak: AndroidWorld's seed {seed} is reserved for testing; train with another, say 1000")


def trainable(names: Iterable[str] = (), free_reward: bool = False) -> list[str]:
    """Those of `names` (by default of all) that can be trained on, sorted. `free_reward`: also those free by design.

    Tasks whose goal is the server's wall clock are left out: a group is played on several servers. ValueError for an
    unknown name, and when none is left.
    """
    chosen = set(names) or set(FACTS)
    check_names(chosen)
    left = chosen - WALL_CLOCK_GOALS - (frozenset() if free_reward else FREE_BY_DESIGN)
    if not left:
        raise ValueError(
            "tasks.templates: none of these can be trained on: their goals hold the server's clock, or their reward is "
            "free (androidworld.free_reward = true trains on these)"
        )
    return sorted(left)


def training_tasks(goals: Mapping[tuple[str, int], str], seed: int, combinations: int,
                   step_cap: int | None = None) -> list[Task]:  # fmt: skip
    """Training instances from the goals a server gave for (name, index). Raises ValueError for a seed kept for tests.

    Tasks whose goal is the server's wall clock are left out: a group is played on several servers.
    """
    check_training_seed(seed)
    return [
        make_task(name, index, goal, seed, combinations, step_cap)
        for (name, index), goal in sorted(goals.items())
        if name not in WALL_CLOCK_GOALS
    ]


def check_no_leak(train: Iterable[Task], test: Iterable[Task]) -> None:
    """Raises ValueError when an instance, or a suite seed, is both trained on and tested on."""
    trained = list(train)
    seeds = {task.seed for task in trained}
    drawn = {instance_seed(t.seed, t.template, t.params["index"]) for t in trained}
    for task in test:
        if task.seed in seeds:
            raise ValueError(f"leak: seed {task.seed} of test task {task.id} is trained on")
        if instance_seed(task.seed, task.template, task.params["index"]) in drawn:
            raise ValueError(f"leak: the instance {task.id} is trained on")
