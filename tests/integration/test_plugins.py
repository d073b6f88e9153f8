"""Apps, tasks and suites of a package of somebody else's, which is installed and registers them by entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mobilerl.config import read_saved
from mobilerl.envs.phone.app import App
from mobilerl.envs.plugins import PluginError, with_plugins
from mobilerl.models import tiny

EXAMPLES = Path(__file__).parents[1] / "examples"
SECTION = """
from typing import Literal
from mobilerl.config import SuiteBase


class CountersSection(SuiteBase):
    module = "theirs.suite"
    type: Literal["counters"] = "counters"
    buttons: int = 2
    '''Number of buttons.'''
"""
SUITE = """
from theirs.counters import HELD_OUT, CounterEnv, make_task


class CounterSuite:
    extra, has_server, in_process = "", False, True

    def __init__(self, recipe):
        self.recipe = recipe

    def check(self):
        pass

    def open(self, run_dir=None):
        assert self.recipe.suite.buttons == 3
        return [make_task(seed) for seed in range(4)], [CounterEnv(f"counter-{i}") for i in range(2)]

    def held_out(self, per_template):
        low, high = HELD_OUT[:per_template], HELD_OUT[50 : 50 + per_template]
        return {"low": [make_task(seed) for seed in low], "high": [make_task(seed) for seed in high]}


make = CounterSuite


def is_held_out(task):
    return task.seed in HELD_OUT
"""
ENTRY_POINTS = """
[mobilerl.suites]
counters = theirs.section:CountersSection

[mobilerl.algorithms]
rloo = theirs.rloo:RlooSection

[mobilerl.phone_apps]
radio = theirs.radio:Radio

[mobilerl.phone_tasks]
radio = theirs.radio:RadioPlay
"""


def install(folder: Path, name: str, entry_points: str) -> None:
    """As pip does."""
    info = folder / f"{name}-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def site(tmp_path):
    package = tmp_path / "site" / "theirs"
    package.mkdir(parents=True)
    files = {"section.py": SECTION, "suite.py": SUITE, "__init__.py": ""}
    files |= {f"{name}.py": (EXAMPLES / f"{name}.py").read_text() for name in ("counters", "radio", "rloo")}
    for name, text in files.items():
        (package / name).write_text(text)
    install(package.parent, "theirs", ENTRY_POINTS)
    return package.parent


def mobilerl(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "mobilerl", *words]
    return subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=1200)


@pytest.mark.slow
def test_an_app_with_its_task_a_suite_and_an_algorithm_of_another_package(site, tmp_path):
    out = tmp_path / "out"
    done = mobilerl(
        site, *"eval sim --agent expert --template RadioPlay --split all --instances 2 --out".split(), str(out)
    )
    assert done.returncode == 0, done.stderr
    results = json.loads((out / "results.json").read_text())
    assert (results["success_rate"], results["trials"]) == (1.0, 4) and list(results["per_task"]) == ["RadioPlay"]
    tiny.create(tmp_path / "model", ["count to more less"], hidden=32, layers=1, heads=2, vision_hidden=16)
    (tmp_path / "mine.toml").write_text('[algorithm]\ntype = "rloo"\nscale = 2.0\ndynamic_sampling = false\n')
    words = f"""train --config {tmp_path}/mine.toml --model {tmp_path}/model --run-dir {tmp_path}/run
        --suite.type counters --suite.buttons 3 --train.iterations 1 --rollout.tasks_per_iteration 2
        --algorithm.group_size 2 --agent.screenshots 0 --agent.max_new_tokens 4 --rollout.workers 0
        --train.trajectories_every 1"""
    done = mobilerl(site, *words.split())
    assert done.returncode == 0, done.stderr
    saved = json.loads((tmp_path / "run" / "config.json").read_text())
    assert saved["suite"] == {"type": "counters", "buttons": 3}
    assert (saved["algorithm"]["type"], saved["algorithm"]["scale"]) == ("rloo", 2.0)
    assert "CountTo" in (tmp_path / "run" / "trajectories" / "iter-000001.jsonl").read_text()
    evaluation = f"eval counters --suite.buttons=3 --model {tmp_path}/run --out {tmp_path}/run/eval/final"
    assert f"mobilerl {evaluation}" in done.stdout
    with pytest.raises(ValueError, match="(suite|algorithm).type: Input should be"):
        read_saved(tmp_path / "run" / "config.json")  # here the package is not installed
    done = mobilerl(site, *evaluation.split(), "--trials", "2", "--instances", "3", "--keep")
    assert done.returncode == 0 and "held-out high: " in done.stdout, done.stderr
    evaluated = json.loads((tmp_path / "run/eval/final/results.json").read_text())
    rates = evaluated["success_rate"], evaluated["parts"]["high"]["success_rate"]
    assert evaluated["suite"] == "counters" and all(0.0 <= rate <= 1.0 for rate in rates)
    assert (evaluated["part"], evaluated["trials"], evaluated["errors"]) == ("low", 6, 0)
    assert evaluated["ci95"][0] <= evaluated["success_rate"] <= evaluated["ci95"][1]
    protocol = evaluated["protocol"]
    assert (protocol["suite.buttons"], protocol["agent"], protocol["agent.screenshots"]) == (3, "policy", 0)
    assert protocol["leak_guard"].startswith("passed") and protocol["weights_sha256"]
    assert mobilerl(site, "view", str(tmp_path / "run")).returncode == 0
    assert "counters/CountTo/100" in (tmp_path / "run/view/data/index.js").read_text()


@pytest.mark.slow
def test_a_suite_of_another_package_is_evaluated_like_our_own(site, tmp_path):
    """Also by scripted agents; a stopped evaluation goes on, and tasks that are trained on are refused."""
    assert "counters" in mobilerl(site, "eval", "--help").stdout
    assert "counters/CountTo/150" in mobilerl(site, *"eval counters --suite.buttons 3 --list".split()).stdout
    words = f"eval counters --suite.buttons 3 --agent finish --instances 2 --out {tmp_path}/out".split()
    done = mobilerl(site, *words)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert (results["success_rate"], results["trials"], list(results["parts"])) == (0.0, 2, ["high"])
    assert "these are its results" in mobilerl(site, *words).stdout
    refused = mobilerl(site, *words, "--temperature", "1", "--eval.instances", "3")
    assert refused.returncode == 2 and "--eval.instances: only for `mobilerl train`" in refused.stderr
    assert "of it" in mobilerl(site, *words, "--template", "Nix").stderr
    suite = site / "theirs" / "suite.py"
    suite.write_text(SUITE.replace("HELD_OUT[:per_template]", "range(per_template)"))
    done = mobilerl(site, *words, "--replace")
    assert done.returncode == 2 and "leak: counters/CountTo/0 is to be evaluated on" in done.stderr


def test_a_broken_package_is_named(site):
    install(site, "broken", "[mobilerl.suites]\nx = theirs.nowhere:Section\n")
    done = mobilerl(site, "settings", "suite")
    assert done.returncode == 2 and done.stderr.startswith(
        "mobilerl: error: the entry point x = theirs.nowhere:Section"
    )
    assert "of the installed package broken, cannot be loaded (ModuleNotFoundError" in done.stderr


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (
            "mobilerl.envs.phone.apps.notes:Notes",
            "of the installed package other, is called 'Notes', as another one is",
        ),
        (
            "mobilerl.envs.phone.apps.notes:random",
            "of the installed package other, is <module 'random'.*not a subclass of",
        ),
    ],
)
def test_what_a_package_may_not_register(tmp_path, monkeypatch, value, says):
    install(tmp_path, "other", f"[mobilerl.test_group]\nx = {value}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match=says):
        with_plugins({"Notes": App}, "mobilerl.test_group", App, lambda app: app.label)
