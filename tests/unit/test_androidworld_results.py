"""results.json and episodes.jsonl of an AndroidWorld evaluation."""

from __future__ import annotations

import json

import pytest

from mobilerl.envs.androidworld.env import Episode
from mobilerl.envs.androidworld.faults import NanScore
from mobilerl.envs.androidworld.tasks import make_task
from mobilerl.records import Status, Trajectory
from mobilerl.suites.androidworld.results import androidworld_results, record_of, t_interval

NAMES = ("CameraTakePhoto", "NotesIsTodo", "SystemWifiTurnOnVerify")


def record(name, run, reward=0.0, probe=0.0, raw=None, said_done=True, fault=None):
    task = make_task(name, 0, "Do it.", 30, 1, run=run)
    said = Episode("Do it.", probe, said_done, reward if raw is None else raw)
    if fault:
        return record_of(task, None, None, fault)
    return record_of(task, Trajectory("e", task, (), reward, Status.FINISHED, "s"), said)


def test_rates_both_ways():
    # Run 0: 1, 0.5, and a free 1.0. Run 1: 1, an error, and a free 1.0.
    photo, notes, free = NAMES
    records = [
        record(photo, 0, 1.0),
        record(notes, 0, 0.5),
        record(free, 0, 1.0, probe=1.0),
        record(photo, 1, 1.0),
        record(notes, 1, fault=NanScore("no number")),
        record(free, 1, 1.0, probe=1.0),
    ]
    results = androidworld_results({"seed": 30}, records)
    assert results["success_rate"] == 4 / 5 and results["success_rate_errors_as_zero"] == 4 / 6
    assert results["mean_score"] == 4.5 / 5 and results["mean_score_errors_as_zero"] == 4.5 / 6
    assert results["errors_by_kind"] == {"infrastructure": 0, "environment": 0, "nan": 1}
    # Without the free one: 1 and 0.5 in run 0, 1 and an error in run 1.
    assert results["free_reward"] == {
        "task_ids": ["androidworld/SystemWifiTurnOnVerify/30/0"],
        "success_rate_without": 2 / 3,
        "success_rate_without_errors_as_zero": 2 / 4,
    }
    # 2/3 and 2/2; mean 5/6, standard error 1/6, t(1) = 12.7062.
    runs = results["runs"]
    assert runs["success_rate"] == [2 / 3, 1.0] and runs["success_rate_errors_as_zero"] == [2 / 3, 2 / 3]
    assert runs["mean"] == pytest.approx(5 / 6)
    assert runs["ci95"] == pytest.approx([5 / 6 - 12.7062 / 6, 5 / 6 + 12.7062 / 6])
    assert results["instances"][1]["raw_score"] == 0.5 and results["instances"][1]["success"] is False
    json.dumps(results, allow_nan=False)


def test_t_interval():
    # Three runs of 70, 72 and 77 %: mean 73, sd 3.6056, t(2) = 4.3027, half = 4.3027 * 3.6056 / sqrt(3) = 8.9568.
    assert t_interval([70, 72, 77]) == pytest.approx([73 - 8.9568, 73 + 8.9568], abs=1e-3)
    assert t_interval([1.0]) is None
    low, high = t_interval([0.0, 1.0] * 20)
    assert 0.3 < low < 0.5 < high < 0.7
