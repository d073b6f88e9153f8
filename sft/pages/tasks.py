"""Tasks made from a page graph: page navigation, and the subtasks page reaching and page operation.

A flow leads from an app's home to the end of a task by a shortest way, and its last action is `complete`. Flows are
found as Mobile3M's were, by random walks, and by the shortest path to every page. What a walk did on its way (typing,
scrolling) and where it ended is the flow's goal; the walk itself is replaced by the goal's shortest flow, which may do
these in another order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sft.pages.actions import PageAction
from sft.pages.flows import TaskSettings, find_goals, pages_of, similar
from sft.pages.graph import Page, PageGraph
from sft.pages.naming import NAVIGATE, OPEN, OPENS, OPERATE, REACH, Names, told
from sft.pages.rewards import Goal, Operate, Reach, golden_flow

TaskKind = Literal["navigation", "reaching", "operation"]


@dataclass(frozen=True, slots=True)
class PageTask:
    """A task with its golden flow: `actions[i]` is taken on `pages[i]`, and told in `description[i]`."""

    id: str
    kind: TaskKind
    app: str
    instruction: str
    description: tuple[str, ...]
    goal: Goal
    pages: tuple[str, ...]
    actions: tuple[PageAction, ...]

    def keys(self) -> tuple[object, ...]:
        """What no task of training may share with one of the test: path, action sequence, goal, instruction."""
        return self.pages, (self.app, self.actions), self.goal, self.instruction.casefold()


@dataclass
class TaskSet:
    train: list[PageTask] = field(default_factory=list)
    test: list[PageTask] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    """Why a flow or a task was left out -> how many."""


def make_tasks(graph: PageGraph, settings: TaskSettings | None = None) -> TaskSet:
    """Flows are split first, then each side's subtasks are made; what both sides would hold stays in the test.

    Raises ValueError when the graph gives fewer than two flows.
    """
    settings = settings or TaskSettings()
    made, rng = TaskSet(), random.Random(settings.seed)
    goals = find_goals(graph, settings, rng, made.dropped)
    if len(goals) < 2:
        raise ValueError(f"the graph gives {len(goals)} flows; two are needed to have a train and a test set")
    rng.shuffle(goals)
    held_out = max(1, round(settings.test_share * len(goals)))
    writer = _Writer(graph, settings, rng, made.dropped)
    made.test = [task for goal in goals[:held_out] for task in writer.tasks(goal)]
    made.train = [task for goal in goals[held_out:] for task in writer.tasks(goal)]
    check_no_leak(made.train, made.test)
    return made


def check_no_leak(train: Iterable[PageTask], test: Iterable[PageTask]) -> None:
    """Raises ValueError when a path, an action sequence, a goal or an instruction of a test task is trained on."""
    trained = {key: task.id for task in train for key in task.keys()}
    for task in test:
        for key in task.keys():
            if key in trained:
                raise ValueError(f"leak: the test task {task.id} shares a path, actions, goal or instruction with the "
                                 f"training task {trained[key]}")  # fmt: skip


# --- writing -----------------------------------------------------------------------------------------------------


class _Writer:
    """Turns goals into tasks and remembers what was written, so that nothing is written twice."""

    def __init__(self, graph: PageGraph, settings: TaskSettings, rng: random.Random, dropped: Counter[str]) -> None:
        self._graph, self._settings, self._rng, self._dropped = graph, settings, rng, dropped
        self._names = Names(graph)
        self._seen: set[object] = set()
        self._elements: set[str] = set()
        """Names of elements that were clicked in the flows so far."""
        self._number = 0

    def tasks(self, goal: Goal) -> list[PageTask]:
        """The navigation task of a goal and the subtasks on its way."""
        graph = self._graph
        flow = golden_flow(graph, goal)
        assert flow is not None, "find_goals keeps goals that can be met"
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
        """Whether a click's name is new to the data set, and may name the page that it opens."""
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
        steps = [step for action in wanted if (step := told(action, self._rng))]
        if len(steps) < len(wanted):
            return None
        if not steps:
            return self._reaching(name, visited.app)
        app = self._graph.pages[goal.start].app
        return self._rng.choice(NAVIGATE).format(app=app, steps=", ".join(steps), name=name)

    def _visit(self, goal: Goal, pages: Sequence[str], flow: Sequence[PageAction]) -> tuple[Page, PageAction]:
        """The page that the goal demands and the action that first leads there: the flow may end on another page."""
        wanted = {s.identity for s in goal.subtasks if isinstance(s, Reach)}
        ways = ((self._graph.pages[page], action) for page, action in zip(pages[1:], flow, strict=False))
        return next((page, action) for page, action in ways if page.identity in wanted)

    def _operation(self, page: Page, before: PageAction | None, action: PageAction) -> str | None:
        step = told(action, self._rng)
        name = self._names.page(page, before)
        return step and self._rng.choice(OPERATE).format(app=page.app, step=step, name=name)

    def _task(self, kind: TaskKind, goal: Goal, instruction: str | None) -> PageTask | None:
        graph = self._graph
        flow = golden_flow(graph, goal)
        pages = pages_of(graph, goal.start, flow) if flow else ()
        description = self._description(pages, flow or ())
        app = graph.pages[goal.start].app
        if flow is None or len(flow) < 2:
            return self._drop(kind, "there is nothing to do")
        if instruction is None or len(description) != len(flow):
            return self._drop(kind, "a step cannot be told")
        if len(instruction.split()) > self._settings.words:
            return self._drop(kind, "the instruction is too long")
        instruction = instruction[0].upper() + instruction[1:]
        self._number += 1
        name = f"{app}/{kind}/{self._number}"
        task = PageTask(name, kind, app, instruction, description, goal, pages, flow)
        if self._seen & {*task.keys()}:
            return self._drop(kind, "path, actions, goal or instruction known")
        self._seen |= {*task.keys()}
        return task

    def _drop(self, kind: TaskKind, reason: str) -> None:
        self._dropped[f"{kind}: {reason}"] += 1

    def _description(self, pages: Sequence[str], flow: Sequence[PageAction]) -> tuple[str, ...]:
        """A sentence for every step that can be told; a click also names the page it opens."""
        sentences = []
        for action, after in zip(flow, (*pages[1:], ""), strict=False):
            step = told(action, self._rng)
            title = self._names.title(self._graph.pages[after]) if after else ""
            if step and action.kind == "click" and title not in ("", action.name):
                step = OPENS.format(step=step, title=title)
            sentences += [step] if step else []
        return tuple(sentences)
