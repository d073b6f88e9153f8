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

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from mobilerl.reachagent.actions import COMPLETE, PageAction, same_action
from mobilerl.reachagent.graph import PageGraph

OTHER_TEXT = "\0"
"""Stands for any text that no goal asks for."""


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
    here = graph.pages[state.page].identity
    operated = {
        i
        for i, s in enumerate(goal.subtasks)
        if isinstance(s, Operate) and s.identity == here and same_action(action, s.action)
    }
    return _at(graph, goal, State(target, state.done | operated))


def _at(graph: PageGraph, goal: Goal, state: State) -> State:
    here = graph.pages[state.page].identity
    reached = {i for i, s in enumerate(goal.subtasks) if isinstance(s, Reach) and s.identity == here}
    return State(state.page, state.done | reached)


def moves(graph: PageGraph, goal: Goal, state: State) -> Iterator[tuple[PageAction, State]]:
    """Yields all actions with a known outcome except `complete`, including inputs with texts that the goal asks for."""
    page = graph.pages[state.page]
    wanted = [s.action for s in goal.subtasks if isinstance(s, Operate) and s.identity == page.identity]
    known = [*graph.edges[state.page], *(a for a in wanted if a.slot in page.actions)]
    for action in dict.fromkeys(known):
        after = advance(graph, goal, state, action)
        if after is not None:
            yield action, after


def _outcomes(graph: PageGraph, goal: Goal, state: State) -> Iterator[State]:
    """Yields the states that actions may lead to, including typing an arbitrary text."""
    for action, after in moves(graph, goal, state):
        yield after
        if action.kind == "input":
            other = advance(graph, goal, state, replace(action, text=OTHER_TEXT))
            if other is not None and other != after:
                yield other


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
    """d of all reachable states from which the goal can be reached, including `complete`."""
    begin = first_state(graph, goal)
    before: dict[State, list[State]] = defaultdict(list)
    seen, queue = {begin}, deque([begin])
    while queue:
        state = queue.popleft()
        for after in _outcomes(graph, goal, state):
            before[after].append(state)
            if after not in seen:
                seen.add(after)
                queue.append(after)
    found = {state: 1 for state in seen if finished(goal, state)}
    queue = deque(found)
    while queue:
        state = queue.popleft()
        for earlier in before[state]:
            if earlier not in found:
                found[earlier] = found[state] + 1
                queue.append(earlier)
    return found


def level(
    graph: PageGraph, goal: Goal, remaining: Mapping[State, int], state: State, taken: int, action: PageAction
) -> Level:
    """Reward of an action in a state reached after `taken` steps; `remaining` is `distances(graph, goal)`."""
    longest = remaining[first_state(graph, goal)]
    if action.slot not in graph.pages[state.page].actions:
        return Level.INVALID
    if action == COMPLETE:
        left = 0 if finished(goal, state) else None
    else:
        after = advance(graph, goal, state, action)
        left = remaining.get(after) if after is not None else None
    if left is None:
        return Level.INCOMPLETE
    return Level.GOLDEN if taken + 1 + left <= longest else Level.LONGER
