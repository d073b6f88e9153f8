"""`mobilerl train` on instructions of one's own: four served phones behind a real adb server, a tiny model."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from judge_stand_in import FAILURE, SUCCESS, Asked, stand_in  # noqa: F401
from prepared import program

from mobilerl.cli import main
from mobilerl.models import tiny
from mobilerl.models.checkpoint_folder import STATE_FILE, latest
from mobilerl.models.hub import FILES
from mobilerl.records.files import load_trajectories
from mobilerl.training.tracking import read_metrics

pytestmark = pytest.mark.slow
CHECKED = """
[[task]]
id = "settings"
instruction = "Open the settings"
check = ["dumpsys window | grep -q 'mFocusedApp=.*com.android.settings'"]
max_steps = 4

[[task]]
id = "clock"
instruction = "Open the clock"
reset = ["am force-stop com.android.settings"]
app = "com.android.settings"
check = ["dumpsys window | grep -q 'mFocusedApp=.*deskclock'"]
max_steps = 4

[[task]]
id = "held-out"
instruction = "Go home"
app = "com.android.settings"
check = ["dumpsys window | grep -q 'mFocusedApp=.*launcher'"]
max_steps = 3
split = "test"
"""
UNCHECKED = '[[task]]\nid = "judged"\ninstruction = "Open the settings"\nmax_steps = 3\n'
SCORER = '''
"""A package of somebody else's."""


def by_length(trajectory, final):
    return 1.0 if len(trajectory.steps) % 2 else 0.25
'''


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny"
    torch.manual_seed(0)
    tiny.create(path, ["open the settings clock go home"], hidden=32, layers=1, heads=2, vision_hidden=16)
    return path


@pytest.fixture
def train(adb, phones, model, tmp_path):
    """(flags, instructions, environment) -> metrics and trajectories of three iterations on four served phones."""

    def run(instructions: str, *flags: str, **env: str):
        (tmp_path / "mine.toml").write_text(instructions)
        serials = [phones(180, 360).serial for _ in range(4)]
        words = f"""train --config base/tiny-model --model {model} --run-dir {tmp_path}/run --suite.type instructions
            --suite.file {tmp_path}/mine.toml --fleet.type adb --fleet.spares 0 --train.iterations 3 --eval.every 3
            --train.trajectories_every 1 --agent.screenshots 0 --agent.max_new_tokens 8 --rollout.tasks_per_iteration 2
            --algorithm.group_size 2 --algorithm.dynamic_sampling false --rollout.workers 0""".split()
        command = [program(), *words, "--fleet.serials", json.dumps(serials), *flags]
        own = {"ANDROID_ADB_SERVER_PORT": str(adb.port), "HOME": str(adb.home), **env}
        done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stderr[-3000:]
        metrics = [m for m in read_metrics(tmp_path / "run" / "metrics.jsonl") if m["iteration"]]
        assert [m["iteration"] for m in metrics] == [1, 2, 3]
        assert all(m["rollout/lost_groups"] == 0 and m["rollout/trajectories"] == 4 for m in metrics)
        played = [
            t for i in (1, 2, 3) for t in load_trajectories(tmp_path / "run" / "trajectories" / f"iter-{i:06d}.jsonl")
        ]
        assert {t.device_id for t in played} == set(serials), "serials alone set the number of devices"
        return metrics, played

    return run


def test_with_check_commands(train):
    metrics, played = train(CHECKED)
    assert {t.task.template for t in played} == {"settings", "clock"}
    first = {t.task.template: t.steps[0].observation.app for t in played}
    assert first["clock"] == "com.android.settings", "its app is in front at the beginning"
    assert metrics[-1]["eval/success_rate"] is not None and {t.reward for t in played} <= {0.0, 1.0}


def test_with_a_scripted_judge(train, stand_in, tmp_path):  # noqa: F811
    def answer(asked: Asked) -> str:
        """Every other episode; never the untouched screen that a judge is tried out on."""
        return SUCCESS if "Open the settings" in asked.texts[-1] and len(stand_in.asked) % 2 else FAILURE

    stand_in.answer = answer
    judge = ["--judge.reward", "true", "--judge.url", stand_in.url, "--judge.model", "judge-1"]
    judge += ["--judge.examples", "none", "--judge.unfinished", "judge", "--agent.screenshots", "1"]
    metrics, played = train(UNCHECKED, *judge)
    assert {t.reward for t in played} == {0.0, 1.0} and metrics[-1]["judge/requests"] >= len(played)
    assert main(["push", str(tmp_path / "run"), "--to", "lab/agent", "--dry-run"]) == 0
    uploaded = [p for name in (*FILES, "*.md") for p in latest(tmp_path / "run").glob(name) if p.name != STATE_FILE]
    texts = {p.name: p.read_text() for p in uploaded if p.suffix != ".safetensors"}
    serials = {t.device_id for t in played}
    assert not [
        n for n, text in texts.items() for private in (*serials, stand_in.url, str(tmp_path)) if private in text
    ]
    assert "    mobilerl eval instructions FILE --model lab/agent --out results" in texts["README.md"]
    assert "- `judge.model`: judge-1" in texts["README.md"] and "serials" not in texts["README.md"]


def test_with_a_scorer_of_another_package(train, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "their_rewards.py").write_text(SCORER)
    _, played = train(UNCHECKED, "--rollout.scorer", "their_rewards:by_length", PYTHONPATH=str(tmp_path / "theirs"))
    assert all(t.reward == (1.0 if len(t.steps) % 2 else 0.25) for t in played)
