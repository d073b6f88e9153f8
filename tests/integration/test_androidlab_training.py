"""`mobilerl train` on instructions for AndroidLab's apps: served phones behind a real adb server in place of its AVD, a
small checkout in its layout, the shipped tiny model, and a stand-in for the judge's server."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter

import pytest
from androidlab_checkout import make_checkout
from judge_stand_in import FAILURE, NONSENSE, SUCCESS, Asked, stand_in  # noqa: F401
from prepared import program

from mobilerl.cli import main
from mobilerl.judge.judge import REASKS
from mobilerl.records import Status
from mobilerl.records.files import load_trajectories
from mobilerl.training.tracking import read_metrics

pytestmark = pytest.mark.slow
EPISODES = 4
TASKS = """
[[task]]
id = "bluetooth"
instruction = "Switch Bluetooth on"
app = "Settings"
max_steps = 4

[[task]]
id = "stopwatch"
instruction = "Start the stopwatch"
app = "Clock"
max_steps = 4

[[task]]
id = "timer"
instruction = "Set a timer for 5 minutes"
app = "Clock"
split = "test"
max_steps = 2
"""
WORDS = f"""train --suite.type androidlab --suite.interval_s 0 --suite.launch_wait_s 0 --fleet.type adb --fleet.spares 0
    --train.iterations 1 --train.trajectories_every 1 --eval.every 1 --rollout.workers 0
    --rollout.tasks_per_iteration 2 --algorithm.group_size {EPISODES // 2} --algorithm.dynamic_sampling false
    --judge.reward true --judge.model judge-1 --judge.examples none --judge.actions 9 --judge.screenshots 9
    --judge.max_pixels 10000""".split()


@pytest.fixture
def train(adb, phones, stand_in, tmp_path, pytestconfig):  # noqa: F811
    """(flags) -> (metrics of the iteration, its trajectories)"""
    tiny = pytestconfig.rootpath / "recipes"

    def run(*flags: str):
        (tmp_path / "mine.toml").write_text(TASKS)
        checkout = make_checkout(tmp_path / "Android-Lab")
        serials = [phones().serial for _ in range(2)]
        places = ("--config", tiny / "base/tiny-model.toml", "--model", tiny / "generated/checkpoint")
        places += ("--run-dir", tmp_path / "run", "--suite.file", tmp_path / "mine.toml")
        places += ("--suite.checkout", checkout, "--judge.url", stand_in.url, "--fleet.serials", json.dumps(serials))
        own = {"ANDROID_ADB_SERVER_PORT": str(adb.port), "HOME": str(adb.home)}
        words = [program(), *WORDS, *map(str, places), *flags]
        done = subprocess.run(words, env=os.environ | own, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stderr[-3000:]
        assert "suite.checkout has 4 tasks, AndroidLab has 138" in done.stdout
        [metrics] = [m for m in read_metrics(tmp_path / "run" / "metrics.jsonl") if m["iteration"] == 1]
        played = load_trajectories(tmp_path / "run/trajectories/iter-000001.jsonl")
        assert len(played) == EPISODES and metrics["rollout/lost_groups"] == 0
        assert metrics["eval/success_rate"] is not None, "on the task of the split `test`"
        assert {t.device_id for t in played} <= set(serials)
        assert {t.task.template: t.steps[0].observation.app for t in played} == {
            "bluetooth": "Settings",
            "stopwatch": "clock",
        }
        return metrics, list(played)

    return run


def of_a_task(asked: Asked) -> bool:
    """Not the question that a judge is tried out with, nor one of the evaluations."""
    return "You should use" in asked.texts[1] and "timer" not in asked.texts[1]


def test_a_judge_of_the_whole_trace_and_episodes_that_it_could_not_decide(train, stand_in):  # noqa: F811
    """At first its responses cannot be read, more often than it is asked again for all running episodes."""
    given: list[str] = []

    def answer(asked: Asked) -> str:
        if not of_a_task(asked):
            return FAILURE
        unread = given.count(NONSENSE) <= EPISODES * REASKS
        given.append(NONSENSE if unread else (SUCCESS, FAILURE)[len(given) % 2])
        return given[-1]

    stand_in.answer = answer
    metrics, played = train("--judge.unfinished", "judge")
    assert metrics["judge/no_verdicts"] >= 1 and metrics["rollout/infra_errors"] >= 1
    assert Counter(t.reward for t in played) == {1.0: given.count(SUCCESS), 0.0: given.count(FAILURE)}
    longest = max((asked for asked in stand_in.asked if of_a_task(asked)), key=lambda asked: len(asked.images))
    steps = max(len(t.steps) for t in played)
    assert 1 < len(longest.images) <= steps + 1 and all(len(png) < 20_000 for png in longest.images)
    assert "You should use" in longest.texts[1] and "The screen after that:" in longest.texts[1]


def test_a_judge_of_every_step_ends_episodes(train, stand_in):  # noqa: F811
    stand_in.answer = lambda asked: SUCCESS if of_a_task(asked) and "2. " in asked.texts[1] else FAILURE
    _, played = train("--judge.every_step", "true")
    ended = [t for t in played if t.reward == 1.0]
    assert ended and all(t.status is Status.FINISHED and len(t.steps) < 4 for t in ended)
    assert all(t.status is not Status.TRUNCATED for t in played)


def test_the_benchmark_is_refused_before_anything_runs(tmp_path, stand_in, capsys, pytestconfig):  # noqa: F811
    (tmp_path / "mine.toml").write_text(TASKS + '[[task]]\ninstruction = "Open clock"\napp = "Clock"\n')
    places = ["--suite.file", tmp_path / "mine.toml", "--suite.checkout", make_checkout(tmp_path / "Android-Lab")]
    places += ["--run-dir", tmp_path / "run", "--judge.url", stand_in.url, "--fleet.serials", '["emulator-5554"]']
    places += ["--config", "base/tiny-model", "--model", pytestconfig.rootpath / "recipes/generated/checkpoint"]
    assert main([*WORDS, *map(str, places)]) == 2
    said = capsys.readouterr().err
    assert (
        "mine.toml, line 20, task 4: leak: 'Open clock' shares 100% of its words with AndroidLab's task clock_1" in said
    )
    assert not (tmp_path / "run").exists() and not stand_in.asked
