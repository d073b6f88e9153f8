"""results.json and episodes.jsonl of an AndroidWorld evaluation."""

from __future__ import annotations

import json

import pytest

from envs.androidworld.env import Episode
from envs.androidworld.tasks import make_task
from mobilerl.config import ConfigError
from mobilerl.eval.androidworld.journal import Journal, read_journal
from mobilerl.eval.androidworld.results import androidworld_results, record_of, t_interval
from mobilerl.eval.androidworld.run import Plan
from mobilerl.records import Status, Trajectory

NAMES = ("CameraTakePhoto", "NotesIsTodo", "SystemWifiTurnOnVerify")


def record(name, run, reward=0.0, probe=0.0, raw=None, said_done=True, fault=None):
    task = make_task(name, 0, "Do it.", 30, 1, run=run)
    said = Episode("Do it.", probe, said_done, reward if raw is None else raw)
    if fault:
        return record_of(task, None, None, fault)
    return record_of(task, Trajectory("e", task, (), reward, Status.FINISHED, "s"), said, ("", ""))


def test_rates_both_ways():
    # Run 0: 1, 0.5, and a free 1.0. Run 1: 1, an error, and a free 1.0.
    photo, notes, free = NAMES
    records = [
        record(photo, 0, 1.0), record(notes, 0, 0.5), record(free, 0, 1.0, probe=1.0),
        record(photo, 1, 1.0), record(notes, 1, fault=("nan", "no number")), record(free, 1, 1.0, probe=1.0),
    ]  # fmt: skip
    results = androidworld_results({"seed": 30}, records)
    assert results["success_rate"] == 4 / 5 and results["success_rate_errors_as_zero"] == 4 / 6
    assert results["mean_score"] == 4.5 / 5 and results["mean_score_errors_as_zero"] == 4.5 / 6
    assert results["errors_by_kind"] == {"infrastructure": 0, "environment": 0, "nan": 1}
    # Without the free one: 1 and 0.5 in run 0, 1 and an error in run 1.
    assert results["free_reward"] == {
        "task_ids": ["androidworld/SystemWifiTurnOnVerify/30/0"], "success_rate_without": 2 / 3,
        "success_rate_without_errors_as_zero": 2 / 4,
    }  # fmt: skip
    # 2/3 and 2/2; mean 5/6, standard error 1/6, t(1) = 12.706.
    runs = results["runs"]
    assert runs["success_rate"] == [2 / 3, 1.0] and runs["success_rate_errors_as_zero"] == [2 / 3, 2 / 3]
    assert runs["mean"] == pytest.approx(5 / 6)
    assert runs["ci95"] == pytest.approx([5 / 6 - 12.706 / 6, 5 / 6 + 12.706 / 6])
    assert results["instances"][1]["raw_score"] == 0.5 and results["instances"][1]["success"] is False
    json.dumps(results, allow_nan=False)


def test_a_goal_reached_unsaid_is_counted_and_earns_nothing():
    results = androidworld_results({}, [record(NAMES[0], 0, 0.0, raw=1.0, said_done=False)])
    assert results["reached_unsaid"] == 1 and results["success_rate"] == 0.0 and results["runs"]["ci95"] is None


def test_only_errors():
    results = androidworld_results({}, [record(NAMES[0], 0, fault=("infrastructure", "gone"))])
    assert results["success_rate"] is None and results["success_rate_errors_as_zero"] == 0.0
    assert results["mean_score"] is None and results["free_reward"]["success_rate_without"] is None


def test_t_interval():
    # Three runs of 70, 72 and 77 %: mean 73, sd 3.606, t(2) = 4.303, half = 4.303 * 3.606 / sqrt(3) = 8.958.
    assert t_interval([70, 72, 77]) == pytest.approx([73 - 8.958, 73 + 8.958], abs=1e-3)
    assert t_interval([1.0]) is None
    low, high = t_interval([0.0, 1.0] * 20)  # more degrees of freedom than the table has
    assert 0.3 < low < 0.5 < high < 0.7


def test_the_plan_names_every_episode_once():
    plan = Plan(templates=NAMES, instances=2, runs=3)
    assert len(plan.keys) == len(set(plan.keys)) == 18 and plan.keys[0] == ("androidworld/CameraTakePhoto/30/0", 0)
    assert [run for _, run in plan.keys] == [0] * 6 + [1] * 6 + [2] * 6
    assert len(Plan().keys) == 116


@pytest.mark.parametrize("bad", [{"instances": 0}, {"runs": 0}, {"step_cap": 0}, {"seed": -1}, {"boot_wait_s": -1.0},
                                 {"deadline_s": 0.0}, {"max_retries": -1}])  # fmt: skip
def test_plans_that_cannot_be_played(bad):
    with pytest.raises(ConfigError, match="must be at least"):
        Plan(**bad)


# --- the journal -------------------------------------------------------------------------------------------------


def test_a_journal_is_read_back_and_gone_on_with(tmp_path):
    path = tmp_path / "episodes.jsonl"
    assert read_journal(path).protocol is None
    first = record(NAMES[0], 0, 1.0)
    with Journal(path, read_journal(path)) as journal:
        journal.begin({"seed": 30, "servers": 2})
        journal.start("a", "NotesIsTodo", 0)
        journal.start("b", "CameraTakePhoto", 0)
        journal.end(first | {"server": "b"})
    past = read_journal(path)
    assert past.leftovers == {"a": ("NotesIsTodo", 0)} and past.size == path.stat().st_size
    assert list(past.episodes) == [(first["task_id"], 0)]
    assert past.episodes[first["task_id"], 0] == first | {"server": "b"}

    whole = path.read_bytes()
    path.write_bytes(whole + b'{"event": "end", "ta')  # cut short by a crash
    with Journal(path, read_journal(path)) as journal:
        journal.begin({})
        journal.start("b", "NotesIsTodo", 0)
    assert path.read_bytes().startswith(whole + b'{"event": "start", "server": "b"')
    assert len(path.read_bytes().splitlines()) == 5


def test_another_protocol_is_named_by_what_differs(tmp_path):
    path = tmp_path / "episodes.jsonl"
    with Journal(path, read_journal(path)) as journal:
        journal.begin({"seed": 30, "servers": 2, "prompt_hash": "a"})
    past = read_journal(path)
    past.check({"seed": 30, "servers": 5}, path)  # where it is played does not matter, and the rest may come later
    with pytest.raises(ConfigError, match=r'prompt_hash = "a" and not "b"; choose another --out'):
        past.check({"seed": 30, "prompt_hash": "b"}, path)
    with pytest.raises(ConfigError, match="step_cap = null and not 15"):
        past.check({"step_cap": 15}, path)


@pytest.mark.parametrize("text", ['{"schema": 2, "protocol": {}}', "[]", '{"protocol": {}}', "no JSON"])
def test_a_file_that_is_no_journal(tmp_path, text):
    path = tmp_path / "episodes.jsonl"
    path.write_text(text + "\n")
    with pytest.raises(ConfigError, match="episodes.jsonl:1 is damaged"):
        read_journal(path)


def test_a_journal_that_has_grown_since_it_was_read_is_not_cut(tmp_path):
    path = tmp_path / "episodes.jsonl"
    old = read_journal(path)
    with Journal(path, old) as journal:
        journal.begin({})
    with pytest.raises(ConfigError, match="has just written"):
        Journal(path, old)
    assert path.stat().st_size > 0
