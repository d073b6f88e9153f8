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
from concurrent.futures import ThreadPoolExecutor
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
from mobilerl.eval.journal import read_journal
from mobilerl.eval.policies import EvalPolicy
from mobilerl.suites.androidworld.evaluation import Plan, evaluate


def test_two_servers_of_which_one_dies_for_good(local_phones, tmp_path):
    good, bad = local_phones(), local_phones()
    threading.Thread(
        target=lambda: (_until(lambda: any(i.initialized for a in bad.suite.values() for i in a)), bad.stop()),
        daemon=True,
    ).start()
    heard = []
    results = play([good, bad], tmp_path, Plan(templates=FEW, runs=3, boot_wait_s=1.0), heard=heard)
    assert results["success_rate"] == 1.0 and results["trials"] == 12 and results["errors"] == 0
    [told] = [text for text in heard if "given up" in text]
    assert bad.url in told and "cannot be reached" in told
    assert re.search(rf"\d+ episodes are left, for the servers \S+:{good.port}$", told)
    [dead] = results["dead_servers"]
    assert dead["server"].endswith(f":{bad.port}") and "cannot be reached" in dead["fault"]
    assert datetime.fromisoformat(dead["at"]).tzinfo


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
    assert results["errors_by_kind"]["infrastructure"] == missing > 0
    assert f"runs the {missing} missing episodes" in capsys.readouterr().out
    server.start()
    assert command(*words) == 0
    assert results_in(tmp_path)["trials"] == 4 and results_in(tmp_path)["dead_servers"] == []


def _until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


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
    past = read_journal(tmp_path)
    assert 1 <= len(past.episodes) < 8 and past.leftovers
    journal.write_bytes(before + b'{"event": "end", "task_id": "cut sho')  # as a full disk or a power cut leaves it
    since = len(server.requests)

    words = ("--server", server.url, "--agent", "finish", "--out", str(tmp_path), *templates(*FEW))
    with pytest.raises(ConfigError, match="was run with runs = 2 and not 1"):
        command(*words)
    with pytest.raises(ConfigError, match="was run with seed = 30 and not 7"):
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
    server, plan = local_phones(), Plan(templates=(DOING,))
    inner = ThreadPoolExecutor(1)  # this thread's event loop is busy with the outer evaluation
    refused = []

    def say(text):
        if text.startswith("1 episodes on"):
            before = len(server.requests)
            refused.append(inner.submit(play, [server], tmp_path, plan).exception(60))
            assert len(server.requests) == before, "an episode may be in progress there"

    policy = EvalPolicy(ExpertActor([server]), {"agent": "the stand-in's expert"})
    assert evaluate(servers_at(server), plan, policy, tmp_path, say)["success_rate"] == 1.0
    [error] = refused
    assert isinstance(error, ConfigError) and "being written by another evaluation" in str(error)
