"""ReachAgent's four-level reward on the page graph (section 3 of the paper, in the form of shortest remaining steps).

A state is a page and the subtasks that are done. With d(s) the least number of steps from a state s to the end of the
task, `complete` counted, L = d(start), and an action a in state s after t steps that leads to s':

    Invalid     a is not in A(P)
    Incomplete  a is `complete` before all subtasks are done, or d(s') is infinite
    Golden      t + 1 + d(s') <= L
    Longer      otherwise

An action that was never tried while exploring leads nowhere that is known: d is infinite.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from sft.pages.actions import COMPLETE, PageAction, same_action
from sft.pages.graph import PageGraph

OTHER_TEXT = "\0"
"""Stands for a text that no goal asks for."""


class Level(IntEnum):
    """R(Golden) > R(Longer) > R(Incomplete) > R(Invalid)."""

    INVALID = 0
    INCOMPLETE = 1
    LONGER = 2
    GOLDEN = 3


@dataclass(frozen=True, slots=True)
class Reach:
    """To be at a page, in any of its variants."""

    identity: str


@dataclass(frozen=True, slots=True)
class Operate:
    """To carry out an action on a page."""

    identity: str
    action: PageAction


Subtask = Reach | Operate


@dataclass(frozen=True, slots=True)
class Goal:
    """What a task asks for: all `subtasks`, in any order and on any way, from the page `start` on."""

    start: str
    subtasks: tuple[Subtask, ...]


@dataclass(frozen=True, slots=True)
class State:
    page: str
    done: frozenset[int] = frozenset()
    """Numbers of the subtasks that are done."""


def first_state(graph: PageGraph, goal: Goal) -> State:
    """The home; a subtask to be there is done at once."""
    return _at(graph, goal, State(goal.start))


def finished(goal: Goal, state: State) -> bool:
    return len(state.done) == len(goal.subtasks)


def advance(graph: PageGraph, goal: Goal, state: State, action: PageAction) -> State | None:
    """The state after an action other than `complete`; None when it is not known where the action leads."""
    target = graph.target(state.page, action)
    if target is None:
        return None
    here = graph.pages[state.page].identity
    operated = {
        i for i, s in enumerate(goal.subtasks)
        if isinstance(s, Operate) and s.identity == here and same_action(action, s.action)
    }  # fmt: skip
    return _at(graph, goal, State(target, state.done | operated))


def _at(graph: PageGraph, goal: Goal, state: State) -> State:
    here = graph.pages[state.page].identity
    reached = {i for i, s in enumerate(goal.subtasks) if isinstance(s, Reach) and s.identity == here}
    return State(state.page, state.done | reached)


def moves(graph: PageGraph, goal: Goal, state: State) -> Iterator[tuple[PageAction, State]]:
    """All actions whose outcome is known, `complete` left out; an input also with the texts that the goal asks for."""
    page = graph.pages[state.page]
    wanted = [s.action for s in goal.subtasks if isinstance(s, Operate) and s.identity == page.identity]
    known = [*graph.edges[state.page], *(a for a in wanted if a.slot in page.actions)]
    for action in dict.fromkeys(known):
        after = advance(graph, goal, state, action)
        if after is not None:
            yield action, after


def _outcomes(graph: PageGraph, goal: Goal, state: State) -> Iterator[State]:
    """The states that any action may lead to, those after typing something else among them."""
    for action, after in moves(graph, goal, state):
        yield after
        if action.kind == "input":
            other = advance(graph, goal, state, replace(action, text=OTHER_TEXT))
            if other is not None and other != after:
                yield other


def golden_flow(graph: PageGraph, goal: Goal) -> tuple[PageAction, ...] | None:
    """A shortest flow that ends with `complete`; None when the goal cannot be met."""
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
    """d of every state that the start leads to and that the goal can be met from, `complete` counted."""
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


def level(graph: PageGraph, goal: Goal, remaining: Mapping[State, int], state: State, taken: int,
          action: PageAction) -> Level:  # fmt: skip
    """The reward of an action in a state that was reached after `taken` steps; `remaining` is `distances` of the goal.

    Raises ValueError when the goal cannot be met at all: nothing is golden then.
    """
    longest = remaining.get(first_state(graph, goal))
    if longest is None:
        raise ValueError(f"the goal cannot be met from {goal.start}")
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
