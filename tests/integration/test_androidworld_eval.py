"""Whole evaluations on stand-ins: through the command line, over a real adb server, interrupted and gone on with."""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from androidworld_server import FREE, ExpertActor, Raised, StandIn, in_process
from conftest import free_port

from envs.androidworld import access, startup
from envs.androidworld.address import Address, parse_addresses
from envs.androidworld.device import Settle, png_size
from envs.androidworld.startup import StartupError
from envs.androidworld.tasks import COMMIT, FACTS, budgets_hash, check_no_leak
from envs.androidworld.training import open_training
from envs.phone.env import APP_NAMES
from mobilerl.commands import evaluate_androidworld
from mobilerl.config import ConfigError
from mobilerl.eval.agents import FinishActor
from mobilerl.eval.androidworld.journal import read_journal
from mobilerl.eval.androidworld.run import HTTP_COST, Plan, evaluate
from mobilerl.eval.policies import Player
from mobilerl.rollout.collector import Collector, CollectorSettings

DOING, ANSWERING, FREELY, COMPOSITE = (
    "ContactsAddContact", "NotesIsTodo", "SystemWifiTurnOnVerify", "TurnOnWifiAndOpenApp",
)  # fmt: skip
FEW = (DOING, ANSWERING, FREELY, COMPOSITE)


@pytest.fixture
def stand_ins():
    made: list[StandIn] = []

    def make(transport=None, **options) -> StandIn:
        made.append(StandIn(transport or in_process(), **options).start())
        return made[-1]

    yield make
    for server in made:
        server.stop()


@pytest.fixture
def local_phones(monkeypatch, stand_ins):
    """Stand-ins whose phones are driven as over adb, but in this process; any serial will do."""
    servers: dict[str, StandIn] = {}

    def make(**options) -> StandIn:
        server = stand_ins(**options)
        servers[server.url] = server
        return server

    def make_access(address, client, apps, settle):
        return access.AdbAccess(servers[address.url].transport, APP_NAMES, Settle(0.0, 0.0))

    monkeypatch.setattr(startup, "make_access", make_access)
    return make


def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    evaluate_androidworld.add(parser.add_subparsers(), argparse.ArgumentParser(add_help=False))
    args, rest = parser.parse_known_args(["androidworld", *words])
    return args.run(args, rest)


def templates(*names: str) -> list[str]:
    return [word for name in names for word in ("--template", name)]


def results_in(out: Path) -> dict:
    return json.loads((out / "results.json").read_text())


def play(servers, out, plan, unfinished=(), agent=None, heard=None):
    """An evaluation with the experts of the embedded phone."""
    player = Player(agent or ExpertActor(servers, unfinished), {"agent": "the stand-in's expert"})
    addresses = [Address(s.url, str(s.port)) for s in servers]
    return evaluate(addresses, plan, player, out, ([] if heard is None else heard).append)


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
    results = evaluate(addresses, Plan(templates=names, runs=2), player, tmp_path, lambda text: None)
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


# --- servers that die --------------------------------------------------------------------------------------------


def test_a_server_that_dies_in_mid_episode_and_comes_back(local_phones, tmp_path):
    server, heard = local_phones(), []

    def say(text):
        heard.append(text)
        if text.startswith("2/"):
            server.stop()
            threading.Timer(1.0, server.start).start()

    player = Player(ExpertActor([server]), {"agent": "the stand-in's expert"})
    plan = Plan(templates=FEW, runs=2, boot_wait_s=30.0)
    results = evaluate([Address(server.url, "x")], plan, player, tmp_path, say)
    assert results["success_rate"] == 1.0 and results["trials"] == 8 and results["errors"] == 0
    assert [text.split("/")[0] for text in heard[1:]] == [str(n) for n in range(1, 9)]


def test_two_servers_of_which_one_dies_for_good(local_phones, tmp_path):
    good, bad = local_phones(), local_phones()
    threading.Thread(target=lambda: (_until(lambda: any(i.initialized for a in bad.suite.values() for i in a)),
                                     bad.stop()), daemon=True).start()  # fmt: skip
    results = play([good, bad], tmp_path, Plan(templates=FEW, runs=3, boot_wait_s=1.0))
    assert results["success_rate"] == 1.0 and results["trials"] == 12 and results["errors"] == 0


def test_when_no_server_is_left_the_rest_counts_as_errors_and_is_played_later(local_phones, tmp_path):
    server = local_phones()
    plan = Plan(templates=FEW, boot_wait_s=0.5, max_retries=1)
    player = Player(ExpertActor([server]), {"agent": "the stand-in's expert"})

    def say(text):
        if text.startswith("2/"):
            server.stop()

    results = evaluate([Address(server.url, "x")], plan, player, tmp_path, say)
    assert (results["trials"], results["errors"]) == (2, 2) and results["errors_by_kind"]["infrastructure"] == 2
    assert results["success_rate"] == 1.0 and results["success_rate_errors_as_zero"] == 0.5
    server.start()
    results = play([server], tmp_path, plan)
    assert results["trials"] == 4 and results["errors"] == 0 and results["success_rate"] == 1.0


def _until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


# --- in several sittings -----------------------------------------------------------------------------------------

SITTING = """
import sys
sys.path[:0] = {paths}
import test_androidworld_eval as t
t.command("--server", {url!r}, "--agent", "finish", "--out", {out!r}, *t.templates(*{names}), "--runs", "2")
"""


def test_an_evaluation_that_was_killed_goes_on_where_it_was(stand_ins, tmp_path):
    server = stand_ins(init_s=0.2)
    here = str(Path(__file__).parent)
    script = SITTING.format(paths=[here, str(Path(here).parents[1])], url=server.url, out=str(tmp_path), names=FEW)
    journal = tmp_path / "episodes.jsonl"
    killed = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL, env=dict(os.environ))
    _until(lambda: journal.is_file() and b'"end"' in journal.read_bytes(), 60.0)
    _until(lambda: any(i.initialized for instances in server.suite.values() for i in instances))
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = journal.read_bytes()
    past = read_journal(journal)
    assert 1 <= len(past.episodes) < 8 and past.leftovers
    journal.write_bytes(before + b'{"event": "end", "task_id": "cut sho')  # as a full disk or a power cut leaves it
    since = len(server.requests)

    words = ("--server", server.url, "--agent", "finish", "--out", str(tmp_path), *templates(*FEW))
    with pytest.raises(ConfigError, match="was played with runs = 2 and not 1"):
        command(*words)
    with pytest.raises(ConfigError, match="was played with seed = 30 and not 7"):
        command(*words, "--runs", "2", "--seed", "7")
    assert len(server.requests) == since  # neither touched a server

    assert command(*words, "--runs", "2") == 0
    seen = server.requests[since:]
    torn_down = next(i for i, r in enumerate(seen) if r[1] == "/task/tear_down")
    assert torn_down < next(i for i, r in enumerate(seen) if r[1] == "/suite/reinitialize")
    assert sum(r[1] == "/task/initialize" for r in seen) == 8 - len(past.episodes)
    assert journal.read_bytes().startswith(before)
    results = results_in(tmp_path)
    assert results["trials"] == 8 and len({(i["task_id"], i["trial"]) for i in results["instances"]}) == 8

    server.stop()  # all is played: nobody needs to be asked for the results
    (tmp_path / "results.json").unlink()
    assert command(*words, "--runs", "2") == 0
    assert results_in(tmp_path) == results


def test_two_evaluations_do_not_write_one_journal(local_phones, tmp_path):
    server = local_phones()
    plan = Plan(templates=(DOING,))

    def say(text):
        if text.startswith("1 episodes on"):
            with pytest.raises(ConfigError, match="being written by another evaluation"):
                play([local_phones()], tmp_path, plan)

    # The inner evaluation runs in a thread of its own: this one's event loop is busy.
    errors = []

    def inner(text):
        thread = threading.Thread(target=lambda: _collect(errors, say, text))
        thread.start()
        thread.join()

    player = Player(ExpertActor([server]), {"agent": "the stand-in's expert"})
    assert evaluate([Address(server.url, "x")], plan, player, tmp_path, inner)["success_rate"] == 1.0
    assert errors == []


def _collect(errors, work, *arguments):
    try:
        work(*arguments)
    except BaseException as error:  # handed to the test
        errors.append(error)


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

    class Model(BaseHTTPRequestHandler):
        def do_GET(self):
            self._send({"data": [{"id": "vlm"}]})

        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            message = {"role": "assistant", "content": '<think>so</think><answer>finish(message="yes")</answer>'}
            self._send({"id": "1", "object": "chat.completion", "created": 0, "model": "vlm",
                        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})  # fmt: skip

        def _send(self, answer):
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    url = f"http://127.0.0.1:{model.server_address[1]}/v1"
    words = ("--server", stand_ins().url, *templates(ANSWERING), "--model", url, "--out", str(tmp_path))
    try:
        with pytest.raises(ConfigError, match="has no model 'other'; it has vlm"):
            command(*words, "--model-name", "other")
        assert command(*words, "--model-name", "vlm", "--engine.max_pixels", "10000") == 0
    finally:
        model.shutdown()
        model.server_close()
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
