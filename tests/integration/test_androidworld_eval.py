"""Whole evaluations on stand-ins: through the command line, over a real adb server, for training, with a model."""

from __future__ import annotations

import asyncio
import base64

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
from androidworld_server import FREE, Raised
from http_stand_in import Handler, Server, completion
from ports import free_port

from envs.androidworld import startup
from envs.androidworld.address import parse_addresses
from envs.androidworld.device import png_size
from envs.androidworld.startup import StartupError
from envs.androidworld.tasks import COMMIT, FACTS, budgets_hash, check_no_leak
from envs.androidworld.training import open_training
from envs.phone.env import APP_NAMES
from mobilerl.config import ConfigError
from mobilerl.eval.agents import FinishActor
from mobilerl.eval.androidworld.places import RunningServers
from mobilerl.eval.androidworld.run import HTTP_COST, Plan, evaluate
from mobilerl.eval.policies import Player
from mobilerl.rollout.collector import Collector, CollectorSettings

# --- the command line --------------------------------------------------------------------------------------------


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
    assert finish["free_reward"] == {
        "task_ids": [f"androidworld/{FREELY}/30/0"], "success_rate_without": 0.0,
        "success_rate_without_errors_as_zero": 0.0,
    }  # fmt: skip
    assert finish["runs"] == {
        "success_rate": [1 / 3, 1 / 3], "success_rate_errors_as_zero": [1 / 3, 1 / 3], "mean": 1 / 3,
        "ci95": [1 / 3, 1 / 3],
    }  # fmt: skip
    said = " ".join(capsys.readouterr().out.split())
    assert "15 to 17 s and about 30 MB for each" in said and HTTP_COST in said
    assert "1 instances give their reward for nothing; without them 0.0%" in said
    assert "1 failed episodes had reached the goal" in said


def test_the_protocol_is_complete(stand_ins, tmp_path):
    command("--server", stand_ins().url, *templates(DOING), "--agent", "finish", "--out", str(tmp_path), "--step-cap",
            "5", "--seed", "31", "--instances", "2", "--androidworld-commit", "abc1234")  # fmt: skip
    protocol = results_in(tmp_path)["protocol"]
    assert protocol == {
        "mobilerl": protocol["mobilerl"], "agent": "finish", "tasks": [DOING], "seed": 31, "instances_per_task": 2,
        "runs": 1, "step_budget": "int(10 x complexity)", "budgets_sha256": budgets_hash([DOING]), "step_cap": 5,
        "success": "the full score, after the agent said that it was done", "max_invalid": 3, "deadline_s": 3600.0,
        "retries": 3, "screens_and_actions": "http", "start": "home screen", "androidworld_commit": "abc1234",
        "screen": "180x360", "settle": "AndroidWorld's: 3 equal element lists 0.5 s apart, at most 6 s", "servers": 1,
    }  # fmt: skip
    command("--server", stand_ins().url, *templates(DOING), "--agent", "finish", "--out", str(tmp_path / "b"))
    assert results_in(tmp_path / "b")["protocol"]["androidworld_commit"].startswith(f"{COMMIT} (assumed")


@pytest.mark.parametrize(("words", "said"), [
    (("--agent", "finish"), "--server .* is missing"),
    (("--server", "http://h:1", "--agent", "finish"), "--out DIR is missing"),
    (("--server", "http://h:1"), "--model is missing"),
    (("--server", "http://h:1", "--agent", "noop", "--model", "x"), "plays without a model"),
    (("--server", "http://h:1", "--model", "x", "--model-name", "y"), "no checkpoint folder x"),
    (("--server", "http://h:1", "--model", "http://127.0.0.1:1/v1"), "--model-name is missing"),
    (("--server", "http://h:1", "--model", "http://127.0.0.1:1/v1", "--model-name", "y"), "cannot be reached"),
    (("--server", "http://h:1", "--agent", "noop", "--template", "Nope"), "no AndroidWorld task is called 'Nope'"),
    (("--server", "http://h:1", "--agent", "noop", "--runs", "0"), "--runs is 0; it must be at least 1"),
    (("--server", "http://h:1", "--agent", "noop", "--step-cap", "0"), "--step-cap is 0"),
    (("--server", "http://h:1", "--agent", "noop", "--agent.nope", "1"), "agent.nope: there is no such setting"),
])  # fmt: skip
def test_bad_input_is_told_before_any_server_is_asked(words, said, tmp_path):
    out = () if "--out" in said else ("--out", str(tmp_path))
    with pytest.raises(ValueError, match=said):
        command(*words, *out)


def test_a_server_that_is_not_there(tmp_path):
    with pytest.raises(StartupError, match="cannot be reached"):
        command("--server", f"http://127.0.0.1:{free_port()}", "--agent", "noop", "--out", str(tmp_path),
                "--boot-wait", "0")  # fmt: skip
    assert not (tmp_path / "results.json").exists()


# --- whole evaluations -------------------------------------------------------------------------------------------


def test_experts_on_two_servers_over_a_real_adb_server(stand_ins, adb, phones, monkeypatch, tmp_path):
    monkeypatch.setenv("ANDROID_ADB_SERVER_HOST", "127.0.0.1")
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(adb.port))
    served = [phones(), phones()]
    for phone in served:
        adb.transport(phone.serial).connect()
    servers = [stand_ins(adb.transport(phone.serial)) for phone in served]
    real = startup.make_access
    monkeypatch.setattr(startup, "make_access", lambda where, client, apps, rule: real(where, client, APP_NAMES, rule))
    addresses = parse_addresses([f"{s.url},{p.serial}" for s, p in zip(servers, served, strict=True)])
    names = (*FEW, "MarkorCreateFolder", "RetroPlayingQueue", "SportsTrackerActivityDuration", "OsmAndMarker")
    player = Player(ExpertActor(servers), {"agent": "the stand-in's expert"})
    results = evaluate(RunningServers(addresses), Plan(templates=names, runs=2), player, tmp_path, lambda text: None)
    assert results["success_rate"] == 1.0 and results["trials"] == 16 and results["errors"] == 0, results["instances"]
    assert {i["server"] for i in results["instances"]} == {f"127.0.0.1:{s.port}" for s in servers}
    assert results["protocol"]["settle"] == "2 equal screenshots 0.3 s apart, at most 3 s"
    assert results["protocol"]["screen"] == "360x720"
    assert not any(instance.initialized for s in servers for all_ in s.suite.values() for instance in all_)


def test_all_116_tasks_with_agents_that_give_up(local_phones, tmp_path):
    servers = [local_phones(), local_phones()]
    results = play(servers, tmp_path, Plan(), agent=FinishActor())
    # AndroidWorld's check of the playing queue raises as long as nobody has opened the app.
    assert results["trials"] == 115 and results["errors_by_kind"] == {"infrastructure": 0, "environment": 1, "nan": 0}
    assert {n for n, row in results["per_task"].items() if row["successes"]} == FREE
    assert results["success_rate"] == len(FREE) / 115 and results["free_reward"]["success_rate_without"] == 0.0
    assert results["protocol"]["tasks"] == "all 116" and results["protocol"]["budgets_sha256"] == budgets_hash(FACTS)


def test_fractions_nan_and_raising_checks_are_kept_apart(local_phones, tmp_path):
    server = local_phones()
    server.scores |= {COMPOSITE: 0.5, "CameraTakePhoto": float("nan")}
    original = server.do_task_score

    def raising(task_type, task_idx):
        if task_type == "VlcCreatePlaylist":
            raise Raised
        return original(task_type, task_idx)

    server.do_task_score = raising
    plan = Plan(templates=(*FEW, "CameraTakePhoto", "VlcCreatePlaylist"), max_retries=1)
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


# --- training ----------------------------------------------------------------------------------------------------


def test_groups_of_training_tasks_are_collected_on_two_servers(local_phones):
    servers = [local_phones(), local_phones()]
    addresses = [f"{s.url},any-{s.port}" for s in servers]
    with pytest.raises(ValueError, match="seed 30 is reserved for testing"):
        open_training(addresses, 1, seed=30)
    envs, tasks = open_training(addresses, 2, (DOING, "MarkorCreateFolder"), say=lambda text: None)
    assert [t.id for t in tasks] == [f"androidworld/{DOING}/1000/{i}" for i in range(2)]
    evaluated = Plan(templates=(DOING,)).tasks(lambda name, index: "")
    check_no_leak(tasks, evaluated)

    async def main():
        async with Collector(envs, ExpertActor(servers), CollectorSettings(group_size=3)) as collector:
            return await collector.collect(tasks, "i0")

    groups = asyncio.run(main())
    assert [g.task.id for g in groups] == [t.id for t in tasks]
    assert (
        all(t.reward == 1.0 for g in groups for t in g.trajectories) and sum(len(g.trajectories) for g in groups) == 6
    )
    assert [s.seed for s in servers] == [1000, 1000]


# --- models ------------------------------------------------------------------------------------------------------


def test_a_model_behind_a_server_plays(stand_ins, tmp_path, monkeypatch):
    """A model server that answers every screen with "finish", and notes what it was sent."""
    asked = []

    class Model(Handler):
        def do_GET(self):
            self.reply({"data": [{"id": "vlm"}]})

        def do_POST(self):
            asked.append(self.body())
            self.reply(completion('<think>so</think><answer>finish(message="yes")</answer>'))

    model = Server(Model)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    url = f"{model.url}/v1"
    words = ("--server", stand_ins().url, *templates(ANSWERING), "--model", url, "--out", str(tmp_path))
    try:
        with pytest.raises(ConfigError, match="has no model 'other'; it has vlm"):
            command(*words, "--model-name", "other")
        assert command(*words, "--model-name", "vlm", "--engine.max_pixels", "10000") == 0
    finally:
        model.stop()
    protocol = results_in(tmp_path)["protocol"]
    # Without a recipe the settings are those that MobileRL published.
    assert (protocol["agent.layout"], protocol["agent.grounding"], protocol["agent.screenshots"]) == ("chat", "box", 2)
    assert (protocol["max_pixels"], protocol["temperature"], protocol["model"]) == (10000, 0.0, "vlm")
    assert len(protocol["prompt_hash"]) == 16 and protocol["agent.max_new_tokens"] == 4096
    _, request = asked  # the first was to find out what it takes
    parts = [p for m in request["messages"] if isinstance(m["content"], list) for p in m["content"]]
    [picture] = [p for p in parts if p["type"] == "image_url"]
    width, height = png_size(base64.b64decode(picture["image_url"]["url"].partition(",")[2]))
    assert 9000 < width * height <= 10000 and abs(height / width - 2) < 0.05
