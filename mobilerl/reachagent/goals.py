"""Goals of navigation tasks, from random walks and from the shortest path to each page."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence

from mobilerl.reachagent.actions import BACK, PageAction
from mobilerl.reachagent.graph import Page, PageGraph
from mobilerl.reachagent.identity import difference
from mobilerl.reachagent.rewards import Goal, Operate, Reach, golden_flow

ELEMENT_DIFFERENCE, PIXEL_DIFFERENCE = 0.5, 0.3
"""Maximum differences of similar pages, between which an action operates the page instead of leaving it."""

FLOW_LENGTH = (3, 10)
"""Minimum and maximum number of actions of a navigation flow, `complete` included."""
MAX_OPERATIONS = 2
"""Maximum number of operations in a navigation task."""


def find_goals(graph: PageGraph, walks: int, seed: int, dropped: Counter[str], most: int = 0) -> list[Goal]:
    """Finds goals from `walks` random walks per app and from the shortest path to each page, at most `most` per app.

    Their golden flows have the right length; paths and action sequences are unique. An app's goals do not depend on the
    other apps.
    """
    found: list[Goal] = []
    for app in graph.homes:
        goals = list(dict.fromkeys(_goals(graph, app, walks, random.Random(f"{seed}/{app}"))))
        if most:
            goals.sort(key=lambda goal: fraction(repr(goal)))
        found += _usable(graph, app, goals, most or len(goals), dropped)
    return found


def _usable(graph: PageGraph, app: str, goals: Sequence[Goal], most: int, dropped: Counter[str]) -> list[Goal]:
    """The first `most` goals whose flows can be used; the others before them are counted by reason."""
    found: list[Goal] = []
    seen: set[object] = set()
    for goal in goals:
        if len(found) == most:
            break
        if Reach(graph.pages[goal.start].identity) in goal.subtasks:
            # Already reached at the start, so an instruction to visit that page would ask for more than the goal.
            dropped["flow: begins on the page to visit"] += 1
        elif (flow := golden_flow(graph, goal)) is None or not FLOW_LENGTH[0] <= len(flow) <= FLOW_LENGTH[1]:
            dropped["flow: too short or too long"] += 1
        elif any(a == b for a, b in zip(flow, flow[1:], strict=False)):
            dropped["flow: repeats an action immediately"] += 1
        elif _leaves(graph, goal, flow):
            dropped["flow: leaves its app by back"] += 1
        elif seen & (keys := {(app, flow), pages_of(graph, goal.start, flow)}):
            dropped["flow: duplicate path or actions"] += 1
        else:
            seen |= keys
            found.append(goal)
    return found


def fraction(text: str) -> float:
    """A number from 0 to 1 that depends on a text alone."""
    return int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[:8]) / 2**64


def pages_of(graph: PageGraph, start: str, flow: Sequence[PageAction]) -> tuple[str, ...]:
    """Pages on which the actions of a flow are taken."""
    pages = [start]
    for action in flow[:-1]:
        target = graph.target(pages[-1], action)
        assert target is not None, "a golden flow takes known edges"
        pages.append(target)
    return tuple(pages)


def _leaves(graph: PageGraph, goal: Goal, flow: Sequence[PageAction]) -> bool:
    """Whether the back key leaves an app in the flow, since back at an app's home closes it."""
    apps = [graph.pages[page].app for page in pages_of(graph, goal.start, flow)]
    return any(a == BACK and now != then for a, now, then in zip(flow, apps, apps[1:], strict=False))


def _goals(graph: PageGraph, app: str, walks: int, rng: random.Random) -> Iterator[Goal]:
    home = graph.homes[app]
    for page in graph.paths(app):
        if graph.pages[page].app == app:
            yield Goal(home, (Reach(graph.pages[page].identity),))
    for _ in range(walks):
        yield _walk(graph, home, rng)


def _walk(graph: PageGraph, home: str, rng: random.Random) -> Goal:
    """The goal of a random walk that repeats no edge."""
    page = home
    used: set[tuple[str, PageAction]] = set()
    operations: list[Operate] = []
    for _ in range(rng.randint(*FLOW_LENGTH) - 1):
        edges = [(a, t) for a, t in graph.edges[page].items() if t != page and (page, a) not in used]
        if not edges:
            break
        action, target = rng.choice(edges)
        used.add((page, action))
        if action.kind in ("input", "scroll") and len(operations) < MAX_OPERATIONS:
            operations.append(Operate(graph.pages[page].identity, action))
        page = target
    return Goal(home, (*dict.fromkeys(operations), Reach(graph.pages[page].identity)))


def similar(first: Page, second: Page) -> bool:
    """Whether two pages share most of their elements and, if both have screenshots, look alike."""
    ours, theirs = ({(a.kind, a.name) for a in page.actions} for page in (first, second))
    if len(ours & theirs) < (1 - ELEMENT_DIFFERENCE) * len(ours | theirs):
        return False
    images = first.screenshot, second.screenshot
    return not all(images) or difference(*images) <= PIXEL_DIFFERENCE
