"""ReachAgent's four-level reward on the page graph (section 3 of the paper, in terms of shortest remaining steps).

A state is a page and the completed subtasks. With d(s) the minimum number of steps from a state s to the end of the
task, including `complete`, L = d(start), and an action a in state s after t steps that leads to s':

    Invalid     a is not in A(P)
    Incomplete  a is `complete` before all subtasks are done, or d(s') is infinite
    Golden      t + 1 + d(s') <= L
    Longer      otherwise

For an action that was never tried during exploration, d is infinite.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations

from mobilerl.reachagent.actions import COMPLETE, PageAction, same_action
from mobilerl.reachagent.graph import PageGraph


class Level(IntEnum):
    """Reward levels: R(Golden) > R(Longer) > R(Incomplete) > R(Invalid)."""

    INVALID = 0
    INCOMPLETE = 1
    LONGER = 2
    GOLDEN = 3


@dataclass(frozen=True, slots=True)
class Reach:
    """Subtask to be on a page, in any of its variants."""

    identity: str


@dataclass(frozen=True, slots=True)
class Operate:
    """Subtask to carry out an action on a page."""

    identity: str
    action: PageAction


Subtask = Reach | Operate


@dataclass(frozen=True, slots=True)
class Goal:
    """Goal of completing all `subtasks`, in any order and on any path, from the page `start`."""

    start: str
    subtasks: tuple[Subtask, ...]


@dataclass(frozen=True, slots=True)
class State:
    page: str
    done: frozenset[int] = frozenset()
    """Indices of the completed subtasks."""


def first_state(graph: PageGraph, goal: Goal) -> State:
    """State at the goal's start page, where a subtask to be there is already done."""
    return _at(graph, goal, State(goal.start))


def finished(goal: Goal, state: State) -> bool:
    return len(state.done) == len(goal.subtasks)


def advance(graph: PageGraph, goal: Goal, state: State, action: PageAction) -> State | None:
    """State after an action other than `complete`; None if it is unknown where the action leads."""
    target = graph.target(state.page, action)
    if target is None:
        return None
    return _at(graph, goal, State(target, state.done | _operated(graph, goal, state.page, action)))


def _at(graph: PageGraph, goal: Goal, state: State) -> State:
    return State(state.page, state.done | _reached(graph, goal, state.page))


def _reached(graph: PageGraph, goal: Goal, page: str) -> frozenset[int]:
    here = graph.pages[page].identity
    return frozenset(i for i, s in enumerate(goal.subtasks) if isinstance(s, Reach) and s.identity == here)


def _operated(graph: PageGraph, goal: Goal, page: str, action: PageAction) -> frozenset[int]:
    here = graph.pages[page].identity
    return frozenset(
        i
        for i, s in enumerate(goal.subtasks)
        if isinstance(s, Operate) and s.identity == here and same_action(action, s.action)
    )


def moves(graph: PageGraph, goal: Goal, state: State) -> Iterator[tuple[PageAction, State]]:
    """Yields all actions with a known outcome except `complete`, including inputs with texts that the goal asks for."""
    page = graph.pages[state.page]
    wanted = [s.action for s in goal.subtasks if isinstance(s, Operate) and s.identity == page.identity]
    known = [*graph.edges[state.page], *(a for a in wanted if a.slot in page.actions)]
    for action in dict.fromkeys(known):
        after = advance(graph, goal, state, action)
        if after is not None:
            yield action, after


def golden_flow(graph: PageGraph, goal: Goal) -> tuple[PageAction, ...] | None:
    """A shortest flow, which ends with `complete`; None if the goal cannot be reached."""
    app = graph.pages[goal.start].app
    if len(goal.subtasks) == 1 and isinstance(goal.subtasks[0], Reach) and graph.homes.get(app) == goal.start:
        known = graph.flows(app).get(goal.subtasks[0].identity)
        return None if known is None else (*known, COMPLETE)
    begin = first_state(graph, goal)
    ways: dict[State, tuple[PageAction, ...]] = {begin: ()}
    queue = deque([begin])
    while queue:
        state = queue.popleft()
        if finished(goal, state):
            return (*ways[state], COMPLETE)
        for action, after in moves(graph, goal, state):
            if after not in ways:
                ways[after] = (*ways[state], action)
                queue.append(after)
    return None


def distances(graph: PageGraph, goal: Goal) -> dict[State, int]:
    """d of the states from which the goal can be reached and is not yet, including `complete`.

    Searches backward from the last subtask to be done, since few pages lead to most goals in a large graph.
    """
    everything = frozenset(range(len(goal.subtasks)))
    into, ends = _ways(graph, goal)
    found: dict[State, int] = {}
    queue = deque((State(page, everything), 1) for page in ends)
    while queue:
        state, left = queue.popleft()
        for earlier in _before(graph, goal, into, state):
            if earlier.done != everything and earlier not in found:
                found[earlier] = left + 1
                queue.append((earlier, left + 1))
    return found


Ways = Mapping[str, Sequence[tuple[str, PageAction]]]


def _ways(graph: PageGraph, goal: Goal) -> tuple[Ways, set[str]]:
    """The page and action of every way into a page, with inputs that the goal asks for, and pages on which a subtask
    may end."""
    into: Ways = graph.into()
    ends = set[str]()
    for s in goal.subtasks:
        pages = graph.variants(s.identity)
        if isinstance(s, Reach):
            ends.update(pages)
            continue
        for page in pages:
            target = graph.target(page, s.action)
            if target is not None and s.action not in graph.edges[page] and s.action.slot in graph.pages[page].actions:
                into = {**into, target: (*into.get(target, ()), (page, s.action))}
            ends.update(t for action, t in graph.edges[page].items() if same_action(action, s.action))
            ends.update([target] if target is not None else [])
    return into, ends


def _before(graph: PageGraph, goal: Goal, into: Ways, state: State) -> Iterator[State]:
    """Yields the states from which one action leads to a state."""
    reached = _reached(graph, goal, state.page)
    for page, action in into.get(state.page, ()):
        new = reached | _operated(graph, goal, page, action)
        if new <= state.done:
            there = _reached(graph, goal, page)
            for size in range(len(new) + 1):
                for some in combinations(new, size):
                    if there <= (done := state.done.difference(some)):
                        yield State(page, done)


def level(
    graph: PageGraph, goal: Goal, remaining: Mapping[State, int], state: State, taken: int, action: PageAction
) -> Level:
    """Reward of an action in a state reached after `taken` steps; `remaining` is `distances(graph, goal)`."""
    begin = first_state(graph, goal)
    longest = 1 if finished(goal, begin) else remaining[begin]
    if action.slot not in graph.pages[state.page].actions:
        return Level.INVALID
    if action == COMPLETE:
        left = 0 if finished(goal, state) else None
    else:
        after = advance(graph, goal, state, action)
        left = None if after is None else 1 if finished(goal, after) else remaining.get(after)
    if left is None:
        return Level.INCOMPLETE
    return Level.GOLDEN if taken + 1 + left <= longest else Level.LONGER
