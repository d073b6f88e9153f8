"""What a run notes of its tasks and devices, and what the boards make of it."""

import json

import pytest

from envs.base import DeviceReport, Task
from mobilerl.algorithms.curriculum import FailureCurriculum
from mobilerl.records import Group, Status, Trajectory
from mobilerl.train.boards import Boards, write_advantages
from mobilerl.train.tracking import read_metrics
from mobilerl.trajectory_files import save_trajectories
from mobilerl.viewer.episodes import write_episodes
from mobilerl.viewer.fleetboard import COLUMNS, fleet_board
from mobilerl.viewer.taskboard import task_board

NOTHING = {"sources": [], "tasks": [], "devices": [], "rows": []}


def report(place: str, device: str, state: str, seconds: dict[str, float], faults: int = 0, reason: str = ""):
    return DeviceReport(place, device, state, seconds, faults, reason)


def group(name: str, *rewards: float) -> Group:
    task = Task(name, f"T{name}", f"Do {name}", {}, 0, 10, "sim", "Clock")
    trajectories = [Trajectory(f"{name}-{i}", task, (), r, Status.FINISHED, "phone-0") for i, r in enumerate(rewards)]
    return Group(task, tuple(trajectories))


def key(task: Task) -> str:
    return task.id


@pytest.fixture
def curriculum():
    return FailureCurriculum(["a", "b", "c"], patience=1, cooldown=1)


def play(boards: Boards, curriculum: FailureCurriculum, iteration: int, *groups: Group, devices=()) -> None:
    curriculum.update({g.task.id: [t.reward for t in g.trajectories] for g in groups})
    boards.record(iteration, curriculum, groups, key, devices)


def test_a_line_names_every_task_at_first_and_then_those_that_changed(tmp_path, curriculum):
    boards = Boards(tmp_path)
    play(boards, curriculum, 1, group("a", 1, 0))
    play(boards, curriculum, 2, group("a", 1, 1), group("b", 0, 0), group("b", 0))
    play(boards, curriculum, 3)
    assert read_metrics(tmp_path / "tasks.jsonl") == [
        {"iteration": 1, "states": {"a": "active", "b": "active", "c": "active"}, "played": {"a": [2, 1]}},
        {"iteration": 2, "states": {"b": "cooling"}, "played": {"a": [2, 2], "b": [3, 0]}},
        {"iteration": 3, "states": {"b": "removed"}, "played": {}},
    ]
    assert not (tmp_path / "fleet.jsonl").exists()


def test_a_device_is_noted_with_what_its_time_went_to_since_the_line_before(tmp_path, curriculum):
    boards = Boards(tmp_path)
    play(boards, curriculum, 1, devices=[report("0", "avd-0", "ready", {"leased": 30.0, "ready": 10.0})])
    later = report("0", "avd-0.1", "leased", {"leased": 31.0, "ready": 10.0, "starting": 9.0}, 2, "black screen")
    play(boards, curriculum, 2, devices=[later])
    restarted = report("0", "avd-0", "ready", {"ready": 5.0}, 1, "offline")
    play(boards, curriculum, 3, devices=[restarted])
    assert [row["devices"]["0"] for row in read_metrics(tmp_path / "fleet.jsonl")] == [
        {"device": "avd-0", "state": "ready", "shares": {"leased": 0.75, "ready": 0.25}, "faults": 0},
        {"device": "avd-0.1", "state": "leased", "shares": {"leased": 0.1, "starting": 0.9}, "faults": 2,
         "reason": "black screen"},
        {"device": "avd-0", "state": "ready", "shares": {"ready": 1.0}, "faults": 1, "reason": "offline"},
    ]  # fmt: skip


def test_a_resumed_run_forgets_what_came_after_its_checkpoint(tmp_path, curriculum):
    boards = Boards(tmp_path)
    play(boards, curriculum, 1, group("a", 1))
    state = curriculum.state_dict()
    play(boards, curriculum, 2, group("b", 0))
    write_advantages(tmp_path, 2, [], [])
    with open(tmp_path / "tasks.jsonl", "a") as f:
        f.write('{"iteration": 3, "sta')  # what a crash left
    curriculum.load_state_dict(state)
    resumed = Boards(tmp_path)
    resumed.truncate_after(1)
    play(resumed, curriculum, 2, group("c", 0))
    rows = read_metrics(tmp_path / "tasks.jsonl")
    assert [(row["iteration"], row["states"]) for row in rows[1:]] == [(2, {"c": "cooling"})]
    assert not list((tmp_path / "advantages").iterdir())


def test_advantages_are_of_the_trajectory_or_of_each_step(tmp_path):
    made = group("a", 1, 0).trajectories
    path = write_advantages(tmp_path, 7, made, [0.5, []])
    assert json.loads(path.read_text()) == {"a-0": [], "a-1": []} and path.name == "iter-000007.json"
    with pytest.raises(ValueError, match="a-0 has 0 steps and 2 advantages"):
        write_advantages(tmp_path, 7, made, [[0.1, 0.2], 0.3])


# --- the boards ------------------------------------------------------------------------------------------------------


def test_the_task_board_knows_since_when(tmp_path, curriculum):
    boards = Boards(tmp_path)
    play(boards, curriculum, 1, group("a", 0, 1), group("b", 0))
    play(boards, curriculum, 2, group("a", *[1] * 6))
    play(boards, curriculum, 3, group("a", *[1] * 10), group("c", 1))
    board = task_board(tmp_path, NOTHING)
    assert board["missing"] == []
    assert {t["key"]: (t["state"], t["since"]) for t in board["tasks"]} == {
        "a": ("solved", 2), "b": ("removed", 2), "c": ("active", 1)}  # fmt: skip
    assert board["tasks"][0]["played"] == [[1, 2, 1], [2, 6, 6], [3, 10, 10]]
    assert board["tasks"][1]["changes"] == [[1, "cooling"], [2, "removed"]]


def test_a_run_that_noted_nothing_has_a_board_of_what_it_kept(tmp_path, curriculum):
    save_trajectories(tmp_path, 5, [*group("a", 1, 0).trajectories, *group("b", 0).trajectories])
    index = write_episodes(tmp_path, tmp_path / "view", "data")
    board = task_board(tmp_path, index)
    assert [(t["key"], t["state"], t["played"]) for t in board["tasks"]] == [
        ("a", "unknown", [[5, 2, 1]]), ("b", "unknown", [[5, 1, 0]])]  # fmt: skip
    assert "no tasks.jsonl" in board["missing"][0]
    fleet = fleet_board(tmp_path, index)
    assert [(d["place"], d["episodes"], d["busy"]) for d in fleet["devices"]] == [("phone-0", 3, None)]
    assert "no fleet.jsonl" in fleet["missing"][0]

    curriculum.update({"b": [0.0]})
    checkpoint = tmp_path / "checkpoints" / "iter-000005" / "state.json"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text(json.dumps({"iteration": 5, "sampler": {"curriculum": curriculum.state_dict()}}))
    states = {t["key"]: t["state"] for t in task_board(tmp_path, index)["tasks"]}
    assert states == {"a": "active", "b": "cooling", "c": "active"}


def test_the_fleet_board_says_what_each_device_did_most(tmp_path, curriculum):
    boards = Boards(tmp_path)
    first = [
        report("0", "avd-0", "ready", {"leased": 60.0, "ready": 40.0}),
        report("1", "avd-1", "ready", {"ready": 9.0}),
    ]
    play(boards, curriculum, 1, devices=first)
    later = report("0", "avd-0.1", "quarantined", {"leased": 60.0, "ready": 40.0, "quarantined": 50.0}, 1, "offline")
    play(boards, curriculum, 2, devices=[later])
    zero, one = fleet_board(tmp_path, {**NOTHING, "devices": ["avd-0", "avd-0.1"], "rows": [[0] * 8, [0] * 7 + [1]]})[
        "devices"
    ]
    assert (zero["states"], zero["busy_columns"], zero["busy"], zero["fault_columns"]) == ("lq", [60, 0], 0.3, [[1, 1]])
    assert (zero["device"], zero["state"], zero["reason"], zero["episodes"]) == ("avd-0.1", "quarantined", "offline", 2)
    assert (one["states"], one["busy"], one["faults"]) == ("i-", 0.0, 0)


def test_a_long_run_is_shown_by_several_iterations_to_a_column(tmp_path, curriculum):
    boards = Boards(tmp_path)
    for i in range(1, COLUMNS + 2):
        now = report("0", "avd-0", "leased", {"leased": 3.0 * i, "ready": 1.0 * i}, faults=i)
        boards.record(i, curriculum, [], key, [now])
    board = fleet_board(tmp_path, NOTHING)
    assert len(board["columns"]) == 121 and board["columns"][0] == [1, 2] and board["columns"][-1] == [241, 241]
    assert board["devices"][0]["fault_columns"][0] == [0, 2]
    assert set(board["devices"][0]["busy_columns"]) == {75}


@pytest.mark.parametrize("name", ["tasks", "fleet"])
def test_a_board_file_of_another_form_is_named(tmp_path, name):
    (tmp_path / f"{name}.jsonl").write_text('{"iteration": 1, "states": {"a": "active"}, "devices": {"0": 3}}\n')
    with pytest.raises(ValueError, match=rf"{name}.jsonl: not as mobilerl.train.boards writes it"):
        (task_board if name == "tasks" else fleet_board)(tmp_path, NOTHING)
