"""Evaluations on stand-ins that are interrupted: servers that die, evaluations that are killed and gone on with."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from datetime import datetime
from pathlib import Path

import pytest
from androidworld_expert import ExpertActor
from androidworld_play import (  # noqa: F401 - fixtures among them
    DOING,
    FEW,
    command,
    local_phones_fixture,
    play,
    results_in,
    servers_at,
    stand_ins_fixture,
    templates,
)

from mobilerl.config import ConfigError
from mobilerl.eval.androidworld.journal import read_journal
from mobilerl.eval.androidworld.run import Plan, evaluate
from mobilerl.eval.policies import Player
from mobilerl.trajectory_files import load_trajectories

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
    results = evaluate(servers_at(server), plan, player, tmp_path, say)
    assert results["success_rate"] == 1.0 and results["trials"] == 8 and results["errors"] == 0
    assert [text.split("/")[0] for text in heard[1:]] == [str(n) for n in range(1, 9)]


def test_two_servers_of_which_one_dies_for_good(local_phones, tmp_path):
    good, bad = local_phones(), local_phones()
    threading.Thread(target=lambda: (_until(lambda: any(i.initialized for a in bad.suite.values() for i in a)),
                                     bad.stop()), daemon=True).start()  # fmt: skip
    heard = []
    results = play([good, bad], tmp_path, Plan(templates=FEW, runs=3, boot_wait_s=1.0), heard=heard)
    assert results["success_rate"] == 1.0 and results["trials"] == 12 and results["errors"] == 0
    [told] = [text for text in heard if "given up" in text]
    assert bad.url in told and "cannot be reached" in told
    assert re.search(rf"\d+ episodes are left, for the servers \S+:{good.port}$", told)
    [dead] = results["dead_servers"]
    assert dead["server"].endswith(f":{bad.port}") and "cannot be reached" in dead["fault"]
    assert datetime.fromisoformat(dead["at"]).tzinfo


def test_when_no_server_is_left_the_rest_counts_as_errors_and_is_played_later(local_phones, tmp_path):
    server = local_phones()
    plan = Plan(templates=FEW, boot_wait_s=0.5, max_retries=1, keep=True)
    player = Player(ExpertActor([server]), {"agent": "the stand-in's expert"})

    def say(text):
        if text.startswith("2/"):
            server.stop()

    results = evaluate(servers_at(server), plan, player, tmp_path, say)
    assert (results["trials"], results["errors"]) == (2, 2) and results["errors_by_kind"]["infrastructure"] == 2
    assert results["success_rate"] == 1.0 and results["success_rate_errors_as_zero"] == 0.5
    server.start()
    results = play([server], tmp_path, plan)
    assert results["trials"] == 4 and results["errors"] == 0 and results["success_rate"] == 1.0
    kept = load_trajectories(tmp_path / "trajectories" / "iter-000000.jsonl")
    assert sorted(t.task.template for t in kept) == sorted(FEW) and all(t.success for t in kept)
    assert all(step.observation.screenshot for t in kept for step in t.steps)


def test_the_command_fails_when_no_server_is_left_and_goes_on_later(stand_ins, tmp_path, capsys):
    server, journal = stand_ins(init_s=0.2), tmp_path / "episodes.jsonl"
    words = ("--server", server.url, "--agent", "finish", "--boot-wait", "0.5", "--out", str(tmp_path))
    words += (*templates(*FEW),)

    def stop_after_an_episode():
        _until(lambda: journal.is_file() and b'"end"' in journal.read_bytes())
        server.stop()

    threading.Thread(target=stop_after_an_episode, daemon=True).start()
    assert command(*words) == 1
    results = results_in(tmp_path)
    assert results["trials"] >= 1 and len(results["dead_servers"]) == 1
    missing = results["errors"]
    said = capsys.readouterr().out
    assert "episodes are left, and no server" in said
    assert f"once they run again, the same command plays the {missing} missing episodes" in said
    server.start()
    assert command(*words) == 0
    assert results_in(tmp_path)["trials"] == 4 and results_in(tmp_path)["dead_servers"] == []


def _until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


# --- in several sittings -----------------------------------------------------------------------------------------

SITTING = """
import sys
sys.path[:0] = {paths}
import androidworld_play as t
t.command("--server", {url!r}, "--agent", "finish", "--out", {out!r}, *t.templates(*{names}), "--runs", "2")
"""


def test_an_evaluation_that_was_killed_goes_on_where_it_was(stand_ins, tmp_path):
    server = stand_ins(init_s=0.2)
    here = str(Path(__file__).parent)
    script = SITTING.format(
        paths=[here, *map(str, Path(here).parents[:2])], url=server.url, out=str(tmp_path), names=FEW
    )
    journal = tmp_path / "episodes.jsonl"
    killed = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL, env=dict(os.environ))
    _until(lambda: journal.is_file() and b'"end"' in journal.read_bytes(), 60.0)
    _until(lambda: any(i.initialized for instances in server.suite.values() for i in instances))
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    _until(lambda: not server._open)  # its last request too is done with
    urllib.request.urlopen(f"{server.url}/health").close()  # whatever waited before it has been accepted by now
    _until(lambda: not server._open)
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
            before = len(server.requests)
            with pytest.raises(ConfigError, match="being written by another evaluation"):
                play([server], tmp_path, plan)
            assert len(server.requests) == before, "an episode may be in play there"

    # The inner evaluation runs in a thread of its own: this one's event loop is busy.
    errors = []

    def inner(text):
        thread = threading.Thread(target=lambda: _collect(errors, say, text))
        thread.start()
        thread.join()

    player = Player(ExpertActor([server]), {"agent": "the stand-in's expert"})
    assert evaluate(servers_at(server), plan, player, tmp_path, inner)["success_rate"] == 1.0
    assert errors == []


def _collect(errors, work, *arguments):
    try:
        work(*arguments)
    except BaseException as error:  # handed to the test
        errors.append(error)
