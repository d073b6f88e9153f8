"""The four-level reward, worked by hand on the small graph."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_graphs import FIELD, LIST, NEWS, OPEN, SAVE, TYPED, UP, click, small_graph

from sft.pages.actions import BACK, COMPLETE, PageAction
from sft.pages.graph import Page, PageGraph
from sft.pages.rewards import Goal, Level, Operate, Reach, State, advance, distances, first_state, golden_flow, level

GRAPH = small_graph()
GOAL = Goal("A", (Reach("l"), Operate("e", TYPED)))
"""See the list and type a title: List, Open, type, complete; or Open, type, Save, complete. Both take four steps."""
NONE, SEEN, DID, BOTH = frozenset(), frozenset({0}), frozenset({1}), frozenset({0, 1})


def rated(goal: Goal, page: str, done: frozenset[int], taken: int, action: PageAction) -> Level:
    return level(GRAPH, goal, distances(GRAPH, goal), State(page, done), taken, action)


def test_the_levels_are_ordered() -> None:
    assert Level.GOLDEN > Level.LONGER > Level.INCOMPLETE > Level.INVALID


def test_remaining_steps() -> None:
    d = distances(GRAPH, GOAL)
    by_hand = {
        ("A", NONE): 4, ("L", SEEN): 3, ("E", NONE): 3, ("E", SEEN): 2, ("T", DID): 2, ("T", BOTH): 1, ("L", BOTH): 1,
        ("N", NONE): 5, ("N", SEEN): 4, ("A", SEEN): 3, ("E", DID): 3, ("A", DID): 2,
    }  # fmt: skip
    assert {key: d[State(*key)] for key in by_hand} == by_hand
    assert not any(state.page == "X" for state in d)


@pytest.mark.parametrize(
    ("page", "done", "taken", "action", "expected"),
    [
        ("A", NONE, 0, LIST, Level.GOLDEN),
        ("A", NONE, 0, OPEN, Level.GOLDEN),  # another flow of the same length
        ("A", NONE, 0, NEWS, Level.LONGER),  # 1 + 5 > 4
        ("A", NONE, 0, BACK, Level.INCOMPLETE),  # offered, but never tried
        ("A", NONE, 0, COMPLETE, Level.INCOMPLETE),
        ("A", NONE, 0, TYPED, Level.INVALID),
        ("L", SEEN, 1, OPEN, Level.GOLDEN),  # 1 + 1 + 2
        ("L", SEEN, 1, UP, Level.LONGER),  # 1 + 1 + 3
        ("L", SEEN, 1, SAVE, Level.INVALID),
        ("E", SEEN, 2, TYPED, Level.GOLDEN),
        ("E", SEEN, 2, BACK, Level.LONGER),
        ("T", BOTH, 3, COMPLETE, Level.GOLDEN),
        ("T", BOTH, 3, SAVE, Level.LONGER),
        ("T", BOTH, 4, COMPLETE, Level.LONGER),  # the same action after a detour
        ("T", DID, 2, COMPLETE, Level.INCOMPLETE),
    ],
)
def test_levels_by_hand(page: str, done: frozenset[int], taken: int, action: PageAction, expected: Level) -> None:
    assert rated(GOAL, page, done, taken, action) is expected


def test_a_wrong_text_does_the_input_but_not_the_subtask() -> None:
    other = PageAction("input", "Title", FIELD.box, text="something else")
    after = advance(GRAPH, GOAL, State("E", SEEN), other)
    assert after == State("T", SEEN)
    assert rated(GOAL, "E", SEEN, 2, other) is Level.LONGER
    close = PageAction("input", "Title", FIELD.box, text="Buy  MILK")
    assert rated(GOAL, "E", SEEN, 2, close) is Level.GOLDEN


def test_the_golden_flow_is_as_long_as_the_distance() -> None:
    flow = golden_flow(GRAPH, GOAL)
    assert flow == (LIST, OPEN, TYPED, COMPLETE)
    assert golden_flow(GRAPH, Goal("A", (Reach("a"),))) == (COMPLETE,)
    assert first_state(GRAPH, Goal("A", (Reach("a"),))).done == {0}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=14), st.sets(st.integers(1, 5), max_size=2))
def test_on_any_graph_the_golden_flow_is_the_shortest(edges: list[tuple[int, int]], wanted: set[int]) -> None:
    """Against sets of states that can be there after n steps."""
    graph = PageGraph(360, 720, {"App": "0"})
    for name in "012345":
        actions = [click(f"{a}-{b}", i) for i, (a, b) in enumerate(edges) if a == int(name)]
        graph.add_page(Page(name, "App", f"page {name}", name, "", b"", (*actions, COMPLETE)))
    for i, (a, b) in enumerate(edges):
        graph.add_edge(str(a), click(f"{a}-{b}", i), str(b))
    goal = Goal("0", tuple(Reach(f"page {page}") for page in sorted(wanted)))
    here, shortest = {(0, frozenset({0}))}, None
    for steps in range(1, 20):
        if any(wanted <= seen for _, seen in here):
            shortest = steps  # `complete` included
            break
        here = {(b, seen | {b}) for at, seen in here for a, b in edges if a == at}
    flow = golden_flow(graph, goal)
    assert (len(flow) if flow else None) == shortest == distances(graph, goal).get(first_state(graph, goal))


def test_a_goal_that_cannot_be_met_has_no_golden_action() -> None:
    lost = Goal("A", (Reach("x"),))
    assert golden_flow(GRAPH, lost) is None
    with pytest.raises(ValueError, match="cannot be met from A"):
        rated(lost, "A", NONE, 0, LIST)
