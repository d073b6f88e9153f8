"""Tasks from a page graph: page navigation, and the subtasks page reaching and page operation.

A flow is a shortest action sequence from an app's home to the end of a task; its last action is `complete`. Goals come
from random walks, as in Mobile3M, and from the shortest path to every page. A walk's operations (typing, scrolling) and
its last page are the goal; the walk itself is replaced by the goal's shortest flow, whose order may differ.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from mobilerl.reachagent.actions import PageAction
from mobilerl.reachagent.goals import find_goals, fraction, pages_of, similar
from mobilerl.reachagent.graph import Page, PageGraph
from mobilerl.reachagent.naming import NAVIGATE, OPEN, OPERATE, REACH, Names, phrase
from mobilerl.reachagent.rewards import Goal, Operate, Reach, golden_flow

TaskKind = Literal["navigation", "reaching", "operation"]
MAX_WORDS = 40
"""Maximum length of an instruction, in words."""


@dataclass(frozen=True, slots=True)
class PageTask:
    """A task with its golden flow: `actions[i]` is taken on `pages[i]`."""

    id: str
    kind: TaskKind
    app: str
    instruction: str
    goal: Goal
    pages: tuple[str, ...]
    actions: tuple[PageAction, ...]

    def keys(self) -> tuple[object, ...]:
        """Path, action sequence, goal and instruction, none of which training and test tasks may share."""
        return self.pages, (self.app, self.actions), self.goal, self.instruction.casefold()


@dataclass
class TaskSet:
    train: list[PageTask]
    test: list[PageTask]
    dropped: Counter[str]
    """Number of dropped flows and tasks, by reason."""


def make_tasks(graph: PageGraph, walks: int = 1000, test_share: float = 0.2, flows: int = 0, seed: int = 0) -> TaskSet:
    """Splits the flows and then makes the tasks of each side; duplicates stay in the test set.

    All flows to the same page are on one side: in the test set for a fraction `test_share` of the pages. `flows` is the
    maximum number of flows per app, 0 for all. Raises ValueError if the flows lead to fewer than two pages.
    """
    dropped: Counter[str] = Counter()
    rng = random.Random(seed)
    goals = find_goals(graph, walks, seed, dropped, flows)
    held_out = _held_out({_place(graph, goal) for goal in goals}, test_share)
    rng.shuffle(goals)
    goals.sort(key=lambda goal: _place(graph, goal) not in held_out)  # the test set first
    writer = _Writer(graph, rng, dropped)
    made: tuple[list[PageTask], list[PageTask]] = [], []
    for goal in goals:
        made[_place(graph, goal) in held_out].extend(writer.tasks(goal))
    check_no_leak(*made)
    return TaskSet(*made, dropped)


def _place(graph: PageGraph, goal: Goal) -> str:
    """App and page that a navigation goal leads to."""
    return f"{graph.pages[goal.start].app}/{goal.subtasks[-1].identity}"


def _held_out(places: set[str], share: float) -> set[str]:
    """The places of the test set, at least one, chosen by a hash, so that more apps or pages do not move any."""
    ordered = sorted(places, key=fraction)
    if len(ordered) < 2:
        raise ValueError(f"the graph has flows to {len(ordered)} pages; a train and a test set need at least two")
    below = sum(fraction(place) < share for place in ordered)
    return set(ordered[: min(max(below, 1), len(ordered) - 1)])


def check_no_leak(train: Iterable[PageTask], test: Iterable[PageTask]) -> None:
    """Raises ValueError if a test task shares a path, action sequence, goal or instruction with a training task."""
    trained = {key: task.id for task in train for key in task.keys()}
    for task in test:
        for key in task.keys():
            if key in trained:
                raise ValueError(
                    f"leak: the test task {task.id} shares a path, actions, goal or instruction with the "
                    f"training task {trained[key]}"
                )


class _Writer:
    """Turns goals into tasks without duplicates."""

    def __init__(self, graph: PageGraph, rng: random.Random, dropped: Counter[str]) -> None:
        self._graph, self._rng, self._dropped = graph, rng, dropped
        self._names = Names(graph)
        self._seen: set[object] = set()
        self._elements: set[str] = set()
        """Names of elements clicked in earlier flows."""
        self._number = 0

    def tasks(self, goal: Goal) -> list[PageTask]:
        """Makes the navigation task of a goal and the subtasks along its flow."""
        graph = self._graph
        flow = golden_flow(graph, goal)
        assert flow is not None, "find_goals returns only goals that can be met"
        pages = pages_of(graph, goal.start, flow)
        made = [self._task("navigation", goal, self._navigation(goal, pages, flow))]
        for i, (action, target) in enumerate(zip(flow, pages[1:], strict=False)):
            page = graph.pages[target]
            name = self._names.page(page, action)
            if self._fresh(action, page) or self._names.unique(name):
                name = action.name if self._fresh(action, page) else name
                wanted = Goal(goal.start, (Reach(page.identity),))
                made.append(self._task("reaching", wanted, self._reaching(name, page.app)))
            if action.kind == "click":
                self._elements.add(action.name)
            if self._operates(pages[i], action, target):
                wanted = Goal(goal.start, (Operate(graph.pages[pages[i]].identity, action),))
                before = flow[i - 1] if i else None
                made.append(self._task("operation", wanted, self._operation(graph.pages[pages[i]], before, action)))
        return [task for task in made if task is not None]

    def _fresh(self, action: PageAction, target: Page) -> bool:
        """Whether the name of a click is new to the data set and can name the page that it opens."""
        new = action.kind == "click" and action.name not in self._elements
        return new and self._names.general(target) and self._names.usable(action.name)

    def _reaching(self, name: str, app: str) -> str:
        return self._rng.choice(OPEN if name == app else REACH).format(name=name, app=app)

    def _operates(self, source: str, action: PageAction, target: str) -> bool:
        if action.kind in ("input", "scroll"):
            return True
        return action.kind != "back" and similar(self._graph.pages[source], self._graph.pages[target])

    def _navigation(self, goal: Goal, pages: Sequence[str], flow: Sequence[PageAction]) -> str | None:
        visited, leading = self._visit(goal, pages, flow)
        name = self._names.page(visited, leading)
        wanted = [s.action for s in goal.subtasks if isinstance(s, Operate)]
        steps = [step for action in wanted if (step := phrase(action, self._rng))]
        if len(steps) < len(wanted):
            return None
        if not steps:
            return self._reaching(name, visited.app)
        app = self._graph.pages[goal.start].app
        return self._rng.choice(NAVIGATE).format(app=app, steps=", ".join(steps), name=name)

    def _visit(self, goal: Goal, pages: Sequence[str], flow: Sequence[PageAction]) -> tuple[Page, PageAction]:
        """Page to visit and the action that first leads there; the flow may end on another page."""
        wanted = {s.identity for s in goal.subtasks if isinstance(s, Reach)}
        ways = ((self._graph.pages[page], action) for page, action in zip(pages[1:], flow, strict=False))
        return next((page, action) for page, action in ways if page.identity in wanted)

    def _operation(self, page: Page, before: PageAction | None, action: PageAction) -> str | None:
        step = phrase(action, self._rng)
        name = self._names.page(page, before)
        return step and self._rng.choice(OPERATE).format(app=page.app, step=step, name=name)

    def _task(self, kind: TaskKind, goal: Goal, instruction: str | None) -> PageTask | None:
        graph = self._graph
        flow = golden_flow(graph, goal)
        pages = pages_of(graph, goal.start, flow) if flow else ()
        steps = [phrase(action, self._rng) for action in flow or ()]
        app = graph.pages[goal.start].app
        if flow is None or len(flow) < 2:
            self._drop(kind, "already complete at the start")
            return None
        if instruction is None or None in steps:
            self._drop(kind, "a step cannot be described")
            return None
        if len(instruction.split()) > MAX_WORDS:
            self._drop(kind, "the instruction is too long")
            return None
        instruction = instruction[0].upper() + instruction[1:]
        self._number += 1
        name = f"{app}/{kind}/{self._number}"
        task = PageTask(name, kind, app, instruction, goal, pages, flow)
        if self._seen & {*task.keys()}:
            self._drop(kind, "duplicate path, actions, goal or instruction")
            return None
        self._seen |= {*task.keys()}
        return task

    def _drop(self, kind: TaskKind, reason: str) -> None:
        self._dropped[f"{kind}: {reason}"] += 1
