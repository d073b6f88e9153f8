"""The viewer's tables of tasks and devices, from what a run logs of them."""

import pytest
from status_records import group, record

from mobilerl.algorithms.curriculum import FailureCurriculum
from mobilerl.envs.base import DeviceReport
from mobilerl.training.run_log import StatusLog
from mobilerl.training.tracking import read_metrics
from mobilerl.viewer.status import device_table, task_table


@pytest.fixture
def curriculum():
    return FailureCurriculum(["a", "b", "c"], patience=1, cooldown=1)


def test_task_table(tmp_path, curriculum):
    log = StatusLog(tmp_path)
    record(log, curriculum, 1, group("a", 0, 1), group("b", 0))
    record(log, curriculum, 2, group("a", *[1] * 6))
    record(log, curriculum, 3, group("a", *[1] * 10), group("c", 1))
    a, b, c = task_table(tmp_path)
    assert [(t["state"], t["since"]) for t in (a, b, c)] == [("solved", 2), ("removed", 2), ("active", 1)]
    assert a["played"] == [[1, 2, 1], [2, 6, 6], [3, 10, 10]]
    assert b["changes"] == [[1, "cooling"], [2, "removed"]]


def test_device_table(tmp_path, curriculum):
    log = StatusLog(tmp_path)
    seconds = {"leased": 60.0, "ready": 40.0}
    reports = (
        DeviceReport("0", "avd-0", "ready", seconds, 0, ""),
        DeviceReport("0", "avd-0.1", "quarantined", seconds | {"quarantined": 50.0}, 1, "offline"),
        DeviceReport("0", "avd-0", "ready", {"ready": 5.0}, 0, ""),  # its process was restarted
    )
    for iteration, report in enumerate(reports, 1):
        record(log, curriculum, iteration, devices=[report])
    index = {"devices": ["avd-0", "avd-0.1"], "rows": [[0] * 8, [0] * 7 + [1]]}
    (device,) = device_table(tmp_path, index)["devices"]
    assert (device["states"], device["busy_columns"], device["fault_columns"]) == ("lqi", [60, 0, 0], [[1, 1]])
    assert (device["busy"], device["device"], device["reason"], device["episodes"]) == (0.2, "avd-0", "offline", 2)


def test_a_resumed_run_drops_later_iterations(tmp_path, curriculum):
    log = StatusLog(tmp_path)
    record(log, curriculum, 1, group("a", 1))
    state = curriculum.state_dict()
    record(log, curriculum, 2, group("b", 0))
    with open(tmp_path / "tasks.jsonl", "a") as f:
        f.write('{"iteration": 3, "sta')  # left by a crash
    curriculum.load_state_dict(state)
    resumed = StatusLog(tmp_path)
    resumed.truncate_after(1)
    record(resumed, curriculum, 2, group("c", 0))
    rows = read_metrics(tmp_path / "tasks.jsonl")
    assert [(row["iteration"], row["states"]) for row in rows[1:]] == [(2, {"c": "cooling"})]
