"""The page graph of a run and its tasks: explored once on an embedded phone, or read from a folder."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from envs.device import Device
from envs.phone.apps.catalogue import APPS
from envs.phone.env import APP_NAMES
from envs.phone.phone import Phone
from envs.phone.transport import InProcessTransport
from mobilerl.atomic_files import write_atomic
from mobilerl.config import ConfigError, PagesSection, PhoneSection
from sft.pages.explore import Explorer, explore, survey
from sft.pages.flows import TaskSettings
from sft.pages.graph import GRAPH_FILE, PageGraph
from sft.pages.identity import Abstraction
from sft.pages.limits import Limits
from sft.pages.states import HOME_APP, Snapshots
from sft.pages.tasks import PageTask, TaskSet, make_tasks

TASKS_FILE = "tasks.json"
PHONE_SEED = 1
"""What the explored phone holds; the surveyed phones have this seed and the following ones."""
SURVEY_PHONES = 5
"""Differently filled phones that are walked over first, to tell pages from their contents."""
SURVEY_STEPS = 150
"""Random actions in every app of each of them."""
Say = Callable[[str], None]


def page_graph(settings: PagesSection, phone: PhoneSection, folder: Path, say: Say) -> PageGraph:
    """The graph at `settings.graph`, or the one in `folder`, which is explored when it is not there yet.

    Pages that no home leads to are left out, with a word. Raises GraphError for files that are no graph, ConfigError
    when nothing is left.
    """
    stored = Path(settings.graph) if settings.graph else folder
    if not settings.graph and not (folder / GRAPH_FILE).is_file():
        _explore(settings, phone, say).save(folder)
    graph = PageGraph.load(stored)
    if lost := graph.unreachable():
        say(f"{len(lost)} pages that no app's home leads to are left out, such as {lost[0]}")
        graph = graph.without(lost)
    if not graph.homes:
        raise ConfigError(f"{stored} has no app's home: no task can begin there; explore again")
    say(f"page graph {stored}: {len(graph.homes)} apps, {len(graph.pages)} pages, {len(graph.triples())} edges")
    return graph


def check(settings: PagesSection) -> None:
    """Raises GraphError or ConfigError for a graph or an app that is not there, before a run directory is claimed."""
    if settings.graph:
        PageGraph.load(Path(settings.graph))
    _apps(settings.apps)


def _explore(settings: PagesSection, phone: PhoneSection, say: Say) -> PageGraph:
    apps = _apps(settings.apps)

    def explorer(seed: int, abstraction: Abstraction | None, screenshots: bool) -> Explorer:
        embedded = Phone(APPS, phone.width, phone.height)
        device = Device(InProcessTransport(embedded), APP_NAMES)
        limits = Limits(pages=settings.most_pages)
        return Explorer(device, Snapshots(embedded, device, seed), APP_NAMES, abstraction, limits, seed, screenshots)

    seeds = range(PHONE_SEED, PHONE_SEED + SURVEY_PHONES)
    say(f"walking over {len(seeds)} phones")
    abstraction = survey([explorer(seed, None, False) for seed in seeds], apps, SURVEY_STEPS)
    say(f"exploring {len(apps)} apps")
    explorer_ = explorer(PHONE_SEED, abstraction, True)
    graph = explore(explorer_, apps)
    for reason, count in explorer_.report.dropped.items():
        say(f"not explored: {count} times {reason}")
    return graph


def _apps(wanted: Sequence[str]) -> list[str]:
    """The launcher last. Raises ConfigError for an app that the phone does not have."""
    for name in wanted:
        if name not in APP_NAMES:
            raise ConfigError(f"pages.apps: the phone has no app {name!r}; it has {', '.join(sorted(APP_NAMES))}")
    return sorted(wanted or APP_NAMES, key=lambda name: name == HOME_APP)


def page_tasks(graph: PageGraph, settings: PagesSection, folder: Path, say: Say) -> TaskSet:
    """The tasks of a graph; `folder/tasks.json` lists them. Raises ConfigError when a side of the split is empty."""
    try:
        made = make_tasks(graph, TaskSettings(walks=settings.walks, test_share=settings.test_share, seed=settings.seed))
    except ValueError as error:
        raise ConfigError(f"no tasks can be made: {error}; explore more (pages.apps, pages.most_pages)") from None
    dropped = ", ".join(f"{count} {reason}" for reason, count in made.dropped.most_common(3))
    for name, tasks in (("train", made.train), ("test", made.test)):
        if not any(task.kind == "navigation" for task in tasks):
            raise ConfigError(f"the {name} set has no navigation task (left out: {dropped}): explore more, or change "
                              "pages.walks or pages.test_share")  # fmt: skip
    write_atomic(folder / TASKS_FILE, json.dumps(_listed(made), indent=1).encode())
    for name, tasks in (("train", made.train), ("test", made.test)):
        kinds = Counter(task.kind for task in tasks)
        steps = sum(len(task.actions) for task in tasks)
        say(f"{name}: {', '.join(f'{n} {kind}' for kind, n in kinds.items())} tasks, {steps} steps")
    return made


def trained_on(tasks: Sequence[PageTask], settings: PagesSection) -> list[PageTask]:
    """Those of the sets that stage 1 learns from."""
    kinds = {"navigation", *(["reaching"] * settings.reaching), *(["operation"] * settings.operation)}
    return [task for task in tasks if task.kind in kinds]


def _listed(made: TaskSet) -> dict[str, Any]:
    def one(task: PageTask) -> dict[str, Any]:
        return {"id": task.id, "kind": task.kind, "app": task.app, "instruction": task.instruction,
                "description": task.description, "pages": task.pages, "goal": asdict(task.goal),
                "actions": [action.to_json() for action in task.actions]}  # fmt: skip

    return {"train": [one(t) for t in made.train], "test": [one(t) for t in made.test], "dropped": dict(made.dropped)}
