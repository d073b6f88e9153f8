"""Page graph and tasks of a run: explored once on an embedded phone, or read from a folder."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from mobilerl.config import ConfigError, PagesSection, PhoneSection
from mobilerl.envs.phone.apps.catalogue import APP_NAMES, APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.reachagent.exploration import HOME_APP, Explorer, explore, survey
from mobilerl.reachagent.graph import PageGraph
from mobilerl.reachagent.graph_files import GRAPH_FILE, load_graph, read_header, save_graph
from mobilerl.reachagent.identity import Abstraction
from mobilerl.reachagent.tasks import TaskSet, make_tasks
from mobilerl.system.atomic_files import write_atomic

TASKS_FILE = "tasks.json"
PHONE_SEED = 1
"""Seed of the explored phone's contents; the surveyed phones have this seed and the following ones."""
SURVEY_PHONES = 5
"""Number of phones with different contents that are surveyed first, to distinguish pages from their contents."""
SURVEY_STEPS = 150
"""Number of random actions in each app of a surveyed phone."""
Say = Callable[[str], None]


def page_graph(settings: PagesSection, phone: PhoneSection, folder: Path, say: Say) -> PageGraph:
    """Loads the graph at `settings.graph`, or the one in `folder` after exploring it if it does not exist yet.

    Raises GraphError for invalid files and ConfigError for an empty graph.
    """
    stored = Path(settings.graph) if settings.graph else folder
    if not settings.graph and not (folder / GRAPH_FILE).is_file():
        save_graph(_explore(settings, phone, say), folder)
    graph = load_graph(stored)
    if not graph.homes:
        raise ConfigError(f"{stored} has no app's home, where tasks begin; explore again")
    say(f"page graph {stored}: {len(graph.homes)} apps, {len(graph.pages)} pages, {len(graph.triples())} edges")
    return graph


def check(settings: PagesSection) -> None:
    """Raises GraphError or ConfigError for a graph or an app that does not exist."""
    if settings.graph:
        read_header(Path(settings.graph))
    _apps(settings.apps)


def _explore(settings: PagesSection, phone: PhoneSection, say: Say) -> PageGraph:
    apps = _apps(settings.apps)

    def explorer(seed: int, abstraction: Abstraction | None, screenshots: bool) -> Explorer:
        device = Phone(APPS, phone.width, phone.height)
        return Explorer(device, seed, abstraction, screenshots=screenshots)

    seeds = range(PHONE_SEED, PHONE_SEED + SURVEY_PHONES)
    say(f"surveying {len(seeds)} phones")
    abstraction = survey([explorer(seed, None, False) for seed in seeds], apps, SURVEY_STEPS)
    say(f"exploring {len(apps)} apps")
    explorer_ = explorer(PHONE_SEED, abstraction, True)
    graph = explore(explorer_, apps)
    for reason, count in explorer_.dropped.items():
        say(f"not explored: {count} times {reason}")
    return graph


def _apps(wanted: Sequence[str]) -> list[str]:
    """App names, the launcher last. Raises ConfigError for an unknown app."""
    for name in wanted:
        if name not in APP_NAMES:
            raise ConfigError(f"pages.apps: the phone has no app {name!r}; it has {', '.join(sorted(APP_NAMES))}")
    return sorted(wanted or APP_NAMES, key=lambda name: name == HOME_APP)


def page_tasks(graph: PageGraph, settings: PagesSection, seed: int, folder: Path, say: Say) -> TaskSet:
    """Makes a graph's tasks, listed in `folder/tasks.json`. Raises ConfigError if a split has no navigation task."""
    try:
        made = make_tasks(graph, test_share=settings.test_share, flows=settings.flows, seed=seed)
    except ValueError as error:
        raise ConfigError(f"no tasks can be made: {error}; explore more apps (pages.apps)") from None
    dropped = ", ".join(f"{count} {reason}" for reason, count in made.dropped.most_common(3))
    for name, tasks in (("train", made.train), ("test", made.test)):
        if not any(task.kind == "navigation" for task in tasks):
            raise ConfigError(
                f"the {name} set has no navigation task (dropped: {dropped}): explore more apps (pages.apps)"
            )
    listed = {name: [asdict(task) for task in tasks] for name, tasks in (("train", made.train), ("test", made.test))}
    write_atomic(folder / TASKS_FILE, json.dumps({**listed, "dropped": dict(made.dropped)}, indent=1).encode())
    for name, tasks in (("train", made.train), ("test", made.test)):
        kinds = Counter(task.kind for task in tasks)
        steps = sum(len(task.actions) for task in tasks)
        say(f"{name}: {', '.join(f'{n} {kind}' for kind, n in kinds.items())} tasks, {steps} steps")
    return made
