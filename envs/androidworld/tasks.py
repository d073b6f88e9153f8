"""AndroidWorld's tasks: facts that its server does not report (budgets, apps), and which tasks can be trained on.

An instance is (task name, suite seed, index). AndroidWorld draws its parameters from these three, so equal seeds give
equal instances everywhere. As its authors advise, training and testing are separated by seed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources

from mobilerl.envs.base import Task

SUITE = "androidworld"
EVAL_SEED = 30
"""The seed of AndroidWorld's own runner and of MobileRL's evaluation."""
EVAL_SEEDS = frozenset({EVAL_SEED, 42})
"""Seeds reserved for testing: published numbers use 30, and the server's own default is 42."""
TRAINING_SEED = 1000
DEVELOPMENT_SEED = 31
"""Seed of the instances for evaluation during training (`eval.every`)."""
WALL_CLOCK_GOALS = frozenset({"MarkorCreateFolder"})
"""Tasks whose goal contains the time at which the suite was made, which differs between servers and restarts."""
SENTINELS = ("ContactsAddContact", "MarkorCreateNote", "OsmAndMarker", "RetroCreatePlaylist", "SimpleSmsSend")
"""Tasks whose goals differ between seeds. They show whether a server still has the suite it was given."""


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """`budget` is the number of steps that AndroidWorld allows: int(10 x complexity)."""

    apps: tuple[str, ...]
    budget: int
    difficulty: str
    needs_answer: bool


_DATA = json.loads(resources.files(__package__).joinpath("tasks.json").read_text())
COMMIT: str = _DATA["commit"]
"""The commit of AndroidWorld that the facts describe."""
FACTS = {name: TaskFacts(**facts | {"apps": tuple(facts["apps"])}) for name, facts in _DATA["tasks"].items()}
"""The facts of the 116 tasks by name."""
APPS: dict[str, str] = _DATA["apps"]
"""Name under the icon -> package. AndroidWorld's `open_app` takes the same name in lower case."""
ALIASES: dict[str, str] = _DATA["aliases"]
"""Other names used by people and models -> name under the icon."""
ANSWER_TASKS = frozenset(name for name, facts in FACTS.items() if facts.needs_answer)
FREE_BY_DESIGN = frozenset(name for name in FACTS if name.startswith("System") and name.endswith("Verify"))
"""Tasks whose set-up creates the requested state, so that an agent that does nothing is rewarded."""


def budgets_hash(names: Iterable[str] = FACTS) -> str:
    """A hash that identifies a table of step budgets."""
    table = {name: FACTS[name].budget for name in sorted(names)}
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:16]


def check_names(names: Iterable[str]) -> None:
    """Raises ValueError for a name that is not one of the 116 tasks."""
    for name in names:
        if name not in FACTS:
            raise ValueError(f"no AndroidWorld task is called {name!r} (commit {COMMIT}); see docs/benchmarks.md")


def make_task(
    name: str, index: int, goal: str, seed: int, combinations: int, step_cap: int | None = None, run: int = 0
) -> Task:
    """Makes one instance. `run` numbers its episodes and changes nothing on the phone."""
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


def trainable(names: Iterable[str] = (), free_reward: bool = False) -> list[str]:
    """The sorted names (default: all) that can be trained on. With `free_reward`, including those free by design.

    Tasks whose goal contains the server's clock are left out, because the episodes of a group run on several servers.
    Raises ValueError for an unknown name, and if none is left.
    """
    chosen = set(names) or set(FACTS)
    check_names(chosen)
    left = chosen - WALL_CLOCK_GOALS - (frozenset() if free_reward else FREE_BY_DESIGN)
    if not left:
        raise ValueError(
            "tasks.templates: none of these can be trained on: their goals hold the server's clock, or their reward is "
            "free (a judge could give it: judge.reward = true)"
        )
    return sorted(left)


def resolve(name: str, apps: Mapping[str, str] = APPS) -> str | None:
    """The matching name in `apps`, ignoring case, spaces, hyphens and a final "app"; None if there is none."""
    known = {_plain(alias): label for alias, label in ALIASES.items() if label in apps}
    known |= {_plain(label): label for label in apps}
    return known.get(_plain(name))


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold()).removesuffix("app")
