"""ReachAgent's metrics against numbers worked by hand."""

from __future__ import annotations

import pytest
from page_graphs import FIELD, LIST, NEWS, OPEN, SAVE, TYPED, UP, small_graph

from sft.pages.actions import BACK, COMPLETE, PageAction, token_f1
from sft.pages.metrics import accuracy, iou_correct, succeeds, text_correct
from sft.pages.rewards import Goal, Operate, Reach


def at(x1: int, y1: int, x2: int, y2: int) -> PageAction:
    return PageAction("click", "Save", (x1, y1, x2, y2))


GOLDEN = at(400, 400, 500, 500)
# 14 % of 999 is 139.86: the grown box is 260.14 to 639.86 in both directions.


@pytest.mark.parametrize(
    ("predicted", "right"),
    [
        (at(639, 450, 700, 460), True),
        (at(640, 450, 700, 460), False),
        (at(200, 450, 261, 460), True),
        (at(200, 450, 260, 460), False),
        (at(450, 639, 460, 700), True),
        (at(450, 640, 460, 700), False),
        (PageAction("scroll", "", (0, 0, 999, 999), "up"), True),  # boxes only
        (BACK, False),
        (None, False),
    ],
)
def test_the_golden_box_grows_by_14_percent_of_the_screen(predicted: PageAction | None, right: bool) -> None:
    assert iou_correct(predicted, GOLDEN) is right


def test_without_a_golden_box_kinds_are_compared() -> None:
    assert iou_correct(COMPLETE, COMPLETE) and not iou_correct(BACK, COMPLETE) and not iou_correct(None, COMPLETE)


@pytest.mark.parametrize(
    ("ours", "golden", "f1"),
    [
        ("buy milk", "buy milk", 1.0),
        ("buy", "buy milk", 2 / 3),
        ("a b c d", "a b c d e", 8 / 9),
        ("a a", "a", 2 / 3),
        ("", "", 1.0),
        ("", "a", 0.0),
    ],
)
def test_token_f1(ours: str, golden: str, f1: float) -> None:
    assert token_f1(ours, golden) == pytest.approx(f1)


def test_text_accuracy() -> None:
    title = ("input", "Title", FIELD.box)
    five = PageAction(*title, text="one two three four five")
    assert text_correct(PageAction("input", "Title", (0, 0, 1, 1), text="one two three four"), five)  # 8/9
    assert not text_correct(PageAction(*title, text="one two three"), five)  # 3/4
    assert not text_correct(PageAction("input", "Body", FIELD.box, text=five.text), five)
    assert text_correct(at(0, 0, 1, 1), GOLDEN), "the box is the other metric's"
    assert not text_correct(PageAction("click", "save", GOLDEN.box), GOLDEN)
    assert not text_correct(PageAction("scroll", "", UP.box, "down"), UP)
    assert text_correct(PageAction("scroll", "the list", (0, 0, 1, 1), "up"), UP)
    assert text_correct(COMPLETE, COMPLETE) and not text_correct(BACK, COMPLETE)


def test_step_and_task_level() -> None:
    flows = [
        [(LIST, LIST), (OPEN, OPEN), (COMPLETE, COMPLETE)],
        [(SAVE, OPEN), (None, COMPLETE)],  # SAVE is within the margin of OPEN, but is called otherwise
    ]
    result = accuracy(flows)
    assert (result.step_iou, result.step_text) == (pytest.approx(4 / 5), pytest.approx(3 / 5))
    assert (result.task_iou, result.task_text) == (0.5, 0.5)
    assert (result.steps, result.tasks) == (5, 2)
    assert accuracy([[(SAVE, OPEN), (COMPLETE, COMPLETE)]]).task_iou == 1.0
    with pytest.raises(ValueError, match="no flows"):
        accuracy([])


def test_success_on_the_graph() -> None:
    graph, goal = small_graph(), Goal("A", (Reach("l"), Operate("e", TYPED)))
    assert succeeds(graph, goal, [LIST, OPEN, TYPED, COMPLETE])
    assert succeeds(graph, goal, [NEWS, BACK, OPEN, TYPED, SAVE, COMPLETE]), "the way is free"
    assert not succeeds(graph, goal, [LIST, OPEN, TYPED]), "never completed"
    assert not succeeds(graph, goal, [LIST, OPEN, COMPLETE]), "nothing typed"
    assert not succeeds(graph, goal, [SAVE, LIST, OPEN, TYPED, COMPLETE]), "an action that the page does not offer"
    assert not succeeds(graph, goal, [*[LIST, BACK] * 6, LIST, OPEN, TYPED, COMPLETE]), "16 steps"
    assert succeeds(graph, goal, [*[LIST, BACK] * 5, LIST, UP, OPEN, TYPED, COMPLETE]), "15 steps"
