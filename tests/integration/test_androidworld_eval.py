"""Whole evaluations on stand-ins: through the command line, over a real adb server, for training, with a model."""

from __future__ import annotations

import pytest
from androidworld_expert import ExpertActor
from androidworld_play import (  # noqa: F401 - fixtures among them
    ANSWERING,
    COMPOSITE,
    DOING,
    FEW,
    FREELY,
    command,
    local_phones_fixture,
    play,
    results_in,
    stand_ins_fixture,
    templates,
)
from androidworld_server import Raised

from mobilerl.envs.androidworld import startup
from mobilerl.envs.androidworld.startup import parse_addresses
from mobilerl.envs.androidworld.tasks import COMMIT, budgets_hash
from mobilerl.envs.phone.apps.catalogue import APP_NAMES
from mobilerl.eval.policies import EvalPolicy
from mobilerl.suites.androidworld.evaluation import HTTP_COST, Plan, evaluate
from mobilerl.suites.androidworld.servers import RunningServers


def test_noop_and_finish_earn_nothing_but_what_is_free(stand_ins, tmp_path, capsys):
    server = stand_ins()
    words = ("--server", server.url, *templates(DOING, ANSWERING, FREELY), "--step-cap", "1")
    assert command(*words, "--agent", "noop", "--out", str(tmp_path / "noop")) == 0
    noop = results_in(tmp_path / "noop")
    assert noop["success_rate"] == 0.0 and noop["trials"] == 3 and noop["errors"] == 0
    assert {i["status"] for i in noop["instances"]} == {"truncated"} and noop["reached_unsaid"] == 1

    assert command(*words, "--runs", "2", "--agent", "finish", "--out", str(tmp_path / "finish")) == 0
    finish = results_in(tmp_path / "finish")
    assert finish["success_rate"] == 2 / 6 and finish["per_task"][FREELY]["successes"] == 2
    assert finish["free_reward"]["task_ids"] == [f"androidworld/{FREELY}/30/0"]
    assert finish["free_reward"]["success_rate_without"] == 0.0
    assert finish["runs"]["success_rate"] == finish["runs"]["ci95"] == [1 / 3, 1 / 3]
    said = " ".join(capsys.readouterr().out.split())
    assert HTTP_COST in said and "without them 0.0%" in said and "1 failed episodes" in said


def test_the_protocol_is_complete(stand_ins, tmp_path):
    words = ("--server", stand_ins().url, *templates(DOING), "--agent", "finish", "--out", str(tmp_path))
    command(*words, *"--step-cap 5 --seed 31 --instances 2 --androidworld-commit abc1234".split())
    protocol = results_in(tmp_path)["protocol"]
    expected = {
        "tasks": [DOING],
        "seed": 31,
        "instances_per_task": 2,
        "budgets_sha256": budgets_hash([DOING]),
        "step_cap": 5,
        "screens_and_actions": "http",
        "androidworld_commit": "abc1234",
        "screen": "180x360",
        "servers": 1,
    }
    assert {name: protocol[name] for name in expected} == expected and len(protocol) == 19
    command("--server", stand_ins().url, *templates(DOING), "--agent", "finish", "--out", str(tmp_path / "b"))
    assert results_in(tmp_path / "b")["protocol"]["androidworld_commit"].startswith(f"{COMMIT} (assumed")


def test_mobilerls_protocol(stand_ins, tmp_path):
    """At most 50 steps; an agent that does the same five times has finished, and one that cannot be read too."""
    plan = Plan(step_cap=50)
    assert {task.max_steps for task in plan.tasks()} >= {10, 50} and max(t.max_steps for t in plan.tasks()) == 50
    words = ("--server", stand_ins().url, *templates(DOING, FREELY), "--protocol", "mobilerl", "--agent", "noop")
    command(*words, "--out", str(tmp_path))
    found = results_in(tmp_path)
    assert {i["template"]: (i["success"], i["steps"], i["status"]) for i in found["instances"]} == {
        DOING: (False, 6, "finished"),
        FREELY: (True, 6, "finished"),
    }
    protocol = found["protocol"]
    assert (protocol["protocol"], protocol["step_cap"], protocol["max_invalid"]) == ("mobilerl", 50, 1)
    assert protocol["start"] == "home screen" and protocol["equal_actions"].startswith("5 in a row")


def test_experts_on_two_servers_over_a_real_adb_server(stand_ins, adb, phones, monkeypatch, tmp_path):
    monkeypatch.setenv("ANDROID_ADB_SERVER_HOST", "127.0.0.1")
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(adb.port))
    served = [phones(), phones()]
    for phone in served:
        adb.transport(phone.serial).connect()
    servers = [stand_ins(adb.transport(phone.serial)) for phone in served]
    monkeypatch.setattr(startup, "APPS", APP_NAMES)
    addresses = parse_addresses([f"{s.url},{p.serial}" for s, p in zip(servers, served, strict=True)])
    names = (*FEW, "MarkorCreateFolder", "RetroPlayingQueue", "SportsTrackerActivityDuration", "OsmAndMarker")
    policy = EvalPolicy(ExpertActor(servers), {"agent": "the stand-in's expert"})
    results = evaluate(RunningServers(addresses), Plan(templates=names, runs=2), policy, tmp_path, lambda text: None)
    assert results["success_rate"] == 1.0 and results["trials"] == 16 and results["errors"] == 0, results["instances"]
    assert {i["server"] for i in results["instances"]} == {f"127.0.0.1:{s.port}" for s in servers}
    assert results["protocol"]["settle"] == "2 equal screenshots 0.3 s apart, at most 3 s"
    assert results["protocol"]["screen"] == "360x720"
    assert not any(instance.initialized for s in servers for all_ in s.suite.values() for instance in all_)


def test_fractions_nan_and_raising_checks_are_kept_apart(local_phones, tmp_path):
    server = local_phones()
    server.scores |= {COMPOSITE: 0.5, "CameraTakePhoto": float("nan")}
    original = server.do_task_score

    def raising(task_type, task_idx):
        if task_type == "VlcCreatePlaylist":
            raise Raised
        return original(task_type, task_idx)

    server.do_task_score = raising
    plan = Plan(templates=(*FEW, "CameraTakePhoto", "VlcCreatePlaylist"), retries=1)
    results = play([server], tmp_path, plan)
    assert results["errors_by_kind"] == {"infrastructure": 0, "environment": 1, "nan": 1}
    assert (results["trials"], results["errors"], results["successes"]) == (4, 2, 3)
    assert results["mean_score"] == 3.5 / 4 and results["mean_score_errors_as_zero"] == pytest.approx(3.5 / 6)
    assert results["success_rate"] == 0.75 and results["success_rate_errors_as_zero"] == 0.5
    lost = {i["template"]: i["error"] for i in results["instances"] if i["error_kind"]}
    assert "the score of CameraTakePhoto 0 is not a number" in lost["CameraTakePhoto"]
    assert "answered 500" in lost["VlcCreatePlaylist"]
    # Probed at 0.5 before anything was done: free, though not a success.
    assert f"androidworld/{COMPOSITE}/30/0" in results["free_reward"]["task_ids"]
