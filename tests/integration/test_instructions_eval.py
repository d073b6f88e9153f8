"""`mobilerl eval instructions` on two served phones behind a real adb server; a script stands in for the model."""

from __future__ import annotations

import json

import http_stand_in
import pytest
from judge_stand_in import FAILURE, SUCCESS, stand_in  # noqa: F401
from test_instructions_training import CHECKED, UNCHECKED

from mobilerl.cli import main

APPS = '[apps]\nSettings = "com.android.settings"\n'
SCORER = "def half(trajectory, final):\n    return 0.25 if final.app else 1.0\n"


@pytest.fixture
def evaluate(adb, phones, tmp_path, monkeypatch):
    """(instructions, flags) -> results.json of an evaluation on two phones."""
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(adb.port))
    monkeypatch.setenv("HOME", str(adb.home))
    serials = [phones(180, 360).serial for _ in range(2)]

    def run(instructions: str, *flags: str, code: int = 0):
        (tmp_path / "mine.toml").write_text(instructions)
        out = tmp_path / "out"
        words = ["eval", "instructions", str(tmp_path / "mine.toml"), "--serial", *serials, "--out", str(out), *flags]
        assert main(words) == code
        return json.loads((out / "results.json").read_text()) if code == 0 else None

    return run


def test_a_scripted_model_earns_what_the_checks_say(evaluate, capsys):
    class Model(http_stand_in.Handler):
        """Opens the settings whatever is asked for, and then says that it is done."""

        def do_GET(self) -> None:
            self.respond({"object": "list", "data": [{"id": "m", "object": "model"}]})

        def do_POST(self) -> None:
            acted = any(message["role"] == "assistant" for message in self.body()["messages"])
            code = "finish()" if acted else 'do(action="Launch", app="Settings")'
            self.respond(http_stand_in.completion(f"<think>so</think><answer>{code}</answer>", "m"))

    server = http_stand_in.Server(Model)
    results = evaluate(APPS + CHECKED, "--model", f"{server.url}/v1", "--model-name", "m", "--trials", "2", "--keep")
    server.stop()
    rates = {name: (row["successes"], row["trials"], row["errors"]) for name, row in results["per_task"].items()}
    assert rates == {"settings": (2, 2, 0), "clock": (0, 2, 0), "held-out": (0, 2, 0)}
    protocol = results["protocol"]
    assert (protocol["file"], protocol["fleet"], protocol["reward"]) == ("mine.toml", "adb", "checks")
    assert {e["split"] for e in results["instances"]} == {"train", "test"}
    assert "33.3%" in capsys.readouterr().out


def test_a_judge_or_a_scorer_gives_the_reward(evaluate, stand_in, tmp_path, monkeypatch, capsys):  # noqa: F811
    stand_in.answer = lambda asked: SUCCESS if "Open the settings" in asked.texts[-1] else FAILURE
    judge = ["--judge.reward", "true", "--judge.url", stand_in.url, "--judge.model", "judge-1"]
    judge += ["--judge.examples", "none", "--judge.unfinished", "judge"]
    results = evaluate(UNCHECKED, "--agent", "finish", *judge)
    assert (results["successes"], results["protocol"]["reward"]) == (1, "judge") and "judge" not in results
    (tmp_path / "their_scorer.py").write_text(SCORER)
    monkeypatch.syspath_prepend(tmp_path)
    results = evaluate(UNCHECKED, "--agent", "finish", "--replace", "--rollout.scorer", "their_scorer:half")
    assert (results["successes"], results["instances"][0]["reward"]) == (0, 0.25)
    capsys.readouterr()
    evaluate(UNCHECKED, "--agent", "finish", code=2)
    assert "task 'judged' of" in capsys.readouterr().err


def test_what_was_lost_is_tried_again_by_the_same_command(evaluate, capsys):
    free = '[[task]]\nid = "free"\ninstruction = "x"\ncheck = ["test -e /sdcard/Music"]\n'
    results = evaluate(CHECKED + free, "--agent", "finish", "--split", "train")
    assert (results["trials"], results["errors"]) == (2, 1)
    assert "free was lost (instructions/free: its check succeeds before" in " ".join(capsys.readouterr().out.split())
    again = evaluate(CHECKED + free, "--agent", "finish", "--split", "train")
    assert again == results and "resuming: 2 of 3 tasks are done" in capsys.readouterr().out
