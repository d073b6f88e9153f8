"""AndroidLab's metrics and results, against numbers worked out by hand."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from mobilerl.envs.androidlab.tasks import LabTask
from mobilerl.suites.androidlab.metrics import Score, count_unchanged, metrics, similarity, sub_goal_share
from mobilerl.suites.androidlab.results import Record, androidlab_results, summary

SCORES = [
    Score(True, {"1": True, "2": True}, steps=5, unchanged=0, human_steps=4),
    Score(True, {"1": False}, steps=10, unchanged=3, human_steps=8),  # completed counts as 1, whatever its sub-goals
    Score(False, {"1": True, "2": False, "3": False, "4": False}, steps=25, unchanged=6, human_steps=3),
    Score(False, {}, steps=1, unchanged=0),
]


def test_the_four_metrics_by_hand():
    found = metrics(SCORES, 4)
    assert found["SR"] == 50.0
    assert [sub_goal_share(s) for s in SCORES] == [1.0, 1.0, 0.25, 0.0]
    assert found["Sub-SR"] == pytest.approx(100 * 2.25 / 4)
    assert found["RRR"] == pytest.approx(100 * (4 / 5 + 8 / 10) / 2)
    # 1 - 0/4, 1 - 3/9, 1 - 6/24, and 1 for a single step
    assert found["ROR"] == pytest.approx(100 * (1 + 2 / 3 + 3 / 4 + 1) / 4)


def test_nothing_to_divide_by():
    assert metrics([], 0) == {"SR": None, "Sub-SR": None, "RRR": None, "ROR": None}
    assert metrics([SCORES[3]], 1)["RRR"] is None
    # A completed task without a human demonstration is left out, and does not count as 0.
    assert metrics([SCORES[0], Score(True, {}, 3, 0)], 2)["RRR"] == pytest.approx(80.0)


def png(array):
    data = io.BytesIO()
    Image.fromarray(array.astype(np.uint8)).save(data, "PNG")
    return data.getvalue()


def screen(value=100, dots=0):
    """White but for a gray block of 1,000 pixels, of which `dots` have another gray."""
    image = np.full((40, 30, 3), 255)
    image[:25, :30] = value
    image[25:35, :25] = value
    image.reshape(-1, 3)[:dots] = 1
    return image


def test_white_does_not_make_screens_similar():
    assert similarity(screen(), screen()) == 1.0
    assert similarity(screen(), screen(dots=1)) == pytest.approx(999 / 1000)  # not more than 0.999: another screen
    assert similarity(screen(), screen(101)) == 0.0
    white = np.full((4, 4, 3), 255)
    assert similarity(white, white) == 0.0 and similarity(white, screen()) == 0.0


def test_unchanged_screens_leave_out_the_last_one():
    a, b, almost = png(screen()), png(screen(7)), png(screen(dots=1))
    assert count_unchanged([a, a, b, b, b]) == 2  # a-a and b-b; the third b is the last screen
    assert count_unchanged([a, almost, a]) == count_unchanged([]) == 0


# --- results -----------------------------------------------------------------------------------------------------

TASKS = [
    LabTask(f"{app}_{i}", app, "p.x", "goal", kind, "evaluation.tasks.x")
    for app, i, kind in (
        ("clock", 1, "operation"),
        ("clock", 2, "operation"),
        ("map.me", 1, "operation"),
        ("map.me", 2, "query_detect"),
    )
]


def record(task_id, **fields):
    return Record(task_id, "finished", 4, 1.0, "emulator-5554", ("response",) * 4, **fields)


def test_errors_are_counted_apart_and_both_ways():
    records = {
        "clock_1": record("clock_1", complete=True, sub_goals={"1": True}, judged_steps=4, unchanged=1),
        "clock_2": record("clock_2", sub_goals={"1": True, "2": False}, judged_steps=3, judge_errors=("step 1: x",)),
        "map.me_2": record("map.me_2", fault="the answer judge gave no verdict"),
    }
    found = androidlab_results({"mode": "xml"}, TASKS, records, {"clock_1": 2.0}, {"map.me_1": "offline"})
    assert (found["trials"], found["successes"], found["errors"]) == (2, 1, 2)
    assert found["success_rate"] == 0.5 and found["success_rate_errors_as_zero"] == 0.25
    assert found["metrics"] == {
        "SR": 50.0,
        "Sub-SR": 75.0,
        "RRR": 50.0,
        "ROR": pytest.approx(100 * (1 - 1 / 3 + 1) / 2),
    }
    assert found["metrics_errors_as_zero"] == {
        "SR": 25.0,
        "Sub-SR": 37.5,
        "RRR": 50.0,
        "ROR": pytest.approx(100 * (1 - 1 / 3 + 1) / 4),
    }
    assert found["errors_by_kind"] == {"device": 1, "judge": 1}
    by_id = {e["task_id"]: e for e in found["instances"]}
    assert by_id["map.me_1"]["error"] == "device: offline" and by_id["clock_2"]["judge_errors"] == ["step 1: x"]
    assert "SR 50.00  Sub-SR 75.00" in "\n".join(summary(found))
