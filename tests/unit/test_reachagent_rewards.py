"""ReachAgent's rewards, metrics and action pairs on a small graph, against numbers worked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_graphs import FIELD, LIST, NEWS, OPEN, SAVE, TYPED, UP, click, small_graph, succeeds

from mobilerl.reachagent.actions import BACK, COMPLETE, PageAction, token_f1
from mobilerl.reachagent.graph import Page, PageGraph, Seen
from mobilerl.reachagent.metrics import accuracy, iou_correct, text_correct
from mobilerl.reachagent.pairs import action_pairs
from mobilerl.reachagent.rewards import (
    Goal,
    Level,
    Operate,
    Reach,
    State,
    distances,
    finished,
    first_state,
    golden_flow,
    level,
)
from mobilerl.reachagent.tasks import PageTask

GRAPH = small_graph()
GOAL = Goal("A", (Reach("l"), Operate("e", TYPED)))
"""See the list and type a title: List, Open, type, complete; or Open, type, Save, complete. Both take four steps."""
NONE, SEEN, DID, BOTH = frozenset(), frozenset({0}), frozenset({1}), frozenset({0, 1})


def test_remaining_steps() -> None:
    d = distances(GRAPH, GOAL)
    by_hand = {
        ("A", NONE): 4,
        ("L", SEEN): 3,
        ("E", NONE): 3,
        ("E", SEEN): 2,
        ("T", DID): 2,
        ("N", NONE): 5,
        ("A", DID): 2,
    }
    assert {key: d[State(*key)] for key in by_hand} == by_hand
    assert not any(state.done == BOTH for state in d)


@pytest.mark.parametrize(
    ("page", "done", "taken", "action", "expected"),
    [
        ("A", NONE, 0, LIST, Level.GOLDEN),
        ("A", NONE, 0, OPEN, Level.GOLDEN),  # another flow of the same length
        ("A", NONE, 0, NEWS, Level.LONGER),  # 1 + 5 > 4
        ("A", NONE, 0, BACK, Level.INCOMPLETE),  # offered, but never tried
        ("A", NONE, 0, TYPED, Level.INVALID),
        ("L", SEEN, 1, UP, Level.LONGER),  # 1 + 1 + 3
        ("E", SEEN, 2, TYPED, Level.GOLDEN),
        ("E", SEEN, 2, PageAction("input", "Title", FIELD.box, text="Buy  MILK"), Level.GOLDEN),
        ("T", BOTH, 3, COMPLETE, Level.GOLDEN),
        ("T", BOTH, 4, COMPLETE, Level.LONGER),  # the same action after a detour
        ("T", DID, 2, COMPLETE, Level.INCOMPLETE),
    ],
)
def test_levels_by_hand(page: str, done: frozenset[int], taken: int, action: PageAction, expected: Level) -> None:
    assert level(GRAPH, GOAL, distances(GRAPH, GOAL), State(page, done), taken, action) is expected


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=14), st.sets(st.integers(1, 5), max_size=2))
def test_the_golden_flow_of_any_graph_is_the_shortest(edges: list[tuple[int, int]], wanted: set[int]) -> None:
    """Against the sets of states reachable in n steps."""
    graph = PageGraph(360, 720, {"App": "0"})
    for name in "012345":
        actions = [click(f"{a}-{b}", i) for i, (a, b) in enumerate(edges) if a == int(name)]
        graph.add_page(Page(name, "App", f"page {name}", name, Seen("", b"", (*actions, COMPLETE))))
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
    begin = first_state(graph, goal)
    left = 1 if finished(goal, begin) else distances(graph, goal).get(begin)
    assert (len(flow) if flow else None) == shortest == left


def at(x1: int, y1: int, x2: int, y2: int) -> PageAction:
    return PageAction("click", "Save", (x1, y1, x2, y2))


GOLDEN = at(400, 400, 500, 500)
# 14 % of 999 is 139.86: the enlarged box is 260.14 to 639.86 in both directions.


@pytest.mark.parametrize(
    ("predicted", "right"),
    [
        (at(639, 450, 700, 460), True),
        (at(640, 450, 700, 460), False),
        (at(450, 640, 460, 700), False),
        (PageAction("scroll", "", (0, 0, 999, 999), "up"), True),  # boxes only
        (BACK, False),
        (None, False),
    ],
)
def test_the_golden_box_is_enlarged_by_14_percent_of_the_screen(predicted: PageAction | None, right: bool) -> None:
    assert iou_correct(predicted, GOLDEN) is right


@pytest.mark.parametrize(
    ("ours", "golden", "f1"),
    [("buy", "buy milk", 2 / 3), ("a b c d", "a b c d e", 8 / 9), ("a a", "a", 2 / 3), ("", "", 1.0), ("", "a", 0.0)],
)
def test_token_f1(ours: str, golden: str, f1: float) -> None:
    assert token_f1(ours, golden) == pytest.approx(f1)


def test_text_accuracy() -> None:
    title = ("input", "Title", FIELD.box)
    five = PageAction(*title, text="one two three four five")
    assert text_correct(PageAction("input", "Title", (0, 0, 1, 1), text="one two three four"), five)  # 8/9
    assert not text_correct(PageAction(*title, text="one two three"), five)  # 3/4
    assert text_correct(at(0, 0, 1, 1), GOLDEN), "boxes belong to the other metric"
    assert not text_correct(PageAction("scroll", "", UP.box, "down"), UP)


def test_step_and_task_level() -> None:
    flows = [{"iou": [True, True, True], "text": [True, True, True]}, {"iou": [True, False], "text": [False, False]}]
    result = accuracy(flows)
    expected = {"step_iou": 4 / 5, "step_text": 3 / 5, "task_iou": 0.5, "task_text": 0.5, "steps": 5, "tasks": 2}
    assert result == pytest.approx(expected)


FLOW = (LIST, OPEN, TYPED, COMPLETE)
TASK = PageTask("App/navigation/1", "navigation", "App", "See the list", GOAL, ("A", "L", "E", "T"), FLOW)


def test_success_on_the_graph() -> None:
    assert succeeds(GRAPH, TASK, [NEWS, BACK, OPEN, TYPED, SAVE, COMPLETE]), "any path will do"
    assert not succeeds(GRAPH, TASK, [LIST, OPEN, TYPED]), "never completed"
    assert not succeeds(GRAPH, TASK, [LIST, OPEN, COMPLETE]), "nothing typed"
    assert not succeeds(GRAPH, TASK, [SAVE, LIST, OPEN, TYPED, COMPLETE]), "an action that the page does not offer"
    assert not succeeds(GRAPH, TASK, [*[LIST, BACK] * 6, LIST, OPEN, TYPED, COMPLETE]), "16 steps"
    assert succeeds(GRAPH, TASK, [*[LIST, BACK] * 5, LIST, UP, OPEN, TYPED, COMPLETE]), "15 steps"


def test_worse_actions_of_the_agent_are_rejected() -> None:
    pairs = action_pairs(GRAPH, TASK, [NEWS, OPEN, None, SAVE])
    assert [p.chosen for p in pairs] == list(FLOW)
    assert [p.source for p in pairs] == ["agent", "random", "agent", "agent"]
    assert [p.rejected for p in pairs if p.source == "agent"] == [NEWS, None, SAVE]
    assert all(p.chosen_level is Level.GOLDEN > p.rejected_level for p in pairs)
