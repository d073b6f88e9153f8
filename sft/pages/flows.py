"""Goals of navigation tasks, found by random walks and by the shortest path to every page."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sft.pages.actions import BACK, PageAction
from sft.pages.graph import Page, PageGraph
from sft.pages.identity import difference
from sft.pages.rewards import Goal, Operate, Reach, golden_flow

ELEMENT_DIFFERENCE, PIXEL_DIFFERENCE = 0.5, 0.3
"""Pages at most so different are similar: an action between them operates the page rather than leaves it."""


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """`walks` per app; `steps` is the least and the most actions of a navigation flow, `complete` counted."""

    walks: int = 100
    steps: tuple[int, int] = (3, 10)
    operations: int = 2
    """Most operations that a navigation task asks for."""
    words: int = 40
    """Longest instruction."""
    test_share: float = 0.05
    seed: int = 0


def find_goals(graph: PageGraph, settings: TaskSettings, rng: random.Random, dropped: Counter[str]) -> list[Goal]:
    """Goals of navigation tasks whose golden flows have a fitting length, no two of them with one path or actions."""
    least, most = settings.steps
    found: list[Goal] = []
    seen: set[object] = set()
    for app in graph.homes:
        for goal in dict.fromkeys(_goals(graph, app, settings, rng)):
            if Reach(graph.pages[goal.start].identity) in goal.subtasks:
                # Done at the start: an instruction to visit that page would ask for more than the goal does.
                dropped["flow: it begins on the page to visit"] += 1
            elif (flow := golden_flow(graph, goal)) is None or not least <= len(flow) <= most:
                dropped["flow: too short or too long"] += 1
            elif any(a == b for a, b in zip(flow, flow[1:], strict=False)):
                dropped["flow: an action repeated at once"] += 1
            elif _leaves(graph, goal, flow):
                dropped["flow: it leaves its app by back"] += 1
            elif seen & (keys := {(app, flow), pages_of(graph, goal.start, flow)}):
                dropped["flow: path or actions known"] += 1
            else:
                seen |= keys
                found.append(goal)
    return found


def pages_of(graph: PageGraph, start: str, flow: Sequence[PageAction]) -> tuple[str, ...]:
    """The page on which each action of a flow is taken."""
    pages = [start]
    for action in flow[:-1]:
        target = graph.target(pages[-1], action)
        if target is None:
            raise ValueError(f"it is not known where {action.to_json()} leads from {pages[-1]}")
        pages.append(target)
    return tuple(pages)


def _leaves(graph: PageGraph, goal: Goal, flow: Sequence[PageAction]) -> bool:
    """Whether the back key leads from one app to another: back at an app's home ends it."""
    apps = [graph.pages[page].app for page in pages_of(graph, goal.start, flow)]
    return any(a == BACK and now != then for a, now, then in zip(flow, apps, apps[1:], strict=False))


def _goals(graph: PageGraph, app: str, settings: TaskSettings, rng: random.Random) -> Iterator[Goal]:
    home = graph.homes[app]
    for page in graph.paths(app):
        if graph.pages[page].app == app:
            yield Goal(home, (Reach(graph.pages[page].identity),))
    for _ in range(settings.walks):
        yield _walked(graph, home, settings, rng)


def _walked(graph: PageGraph, home: str, settings: TaskSettings, rng: random.Random) -> Goal:
    """A random walk that repeats no edge, as a goal."""
    page, used, operations = home, set(), []
    for _ in range(rng.randint(settings.steps[0], settings.steps[1]) - 1):
        edges = [(a, t) for a, t in graph.edges[page].items() if t != page and (page, a) not in used]
        if not edges:
            break
        action, target = rng.choice(edges)
        used.add((page, action))
        if action.kind in ("input", "scroll") and len(operations) < settings.operations:
            operations.append(Operate(graph.pages[page].identity, action))
        page = target
    return Goal(home, (*dict.fromkeys(operations), Reach(graph.pages[page].identity)))


def similar(first: Page, second: Page) -> bool:
    """Whether two pages share most of their elements, and look alike where both have screenshots."""
    ours, theirs = ({(a.kind, a.name) for a in page.actions} for page in (first, second))
    if len(ours & theirs) < (1 - ELEMENT_DIFFERENCE) * len(ours | theirs):
        return False
    pictures = first.screenshot, second.screenshot
    return not all(pictures) or difference(*pictures) <= PIXEL_DIFFERENCE
