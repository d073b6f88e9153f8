"""Apps, tasks and suites of a package of somebody else's, which is installed and registers them by entry points."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mobilerl.config import read_saved
from mobilerl.envs.phone.app import App
from mobilerl.envs.plugins import PluginError, with_plugins
from mobilerl.models import tiny

EXAMPLES = Path(__file__).parents[1] / "examples"
ENTRY_POINTS = """
[mobilerl.suites]
counters = theirs.counters:CountersSection

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
    (package / "__init__.py").touch()
    for name in ("counters", "radio", "rloo"):
        shutil.copy(EXAMPLES / f"{name}.py", package)
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
    assert (results["success_rate"], results["trials"]) == (1.0, 6) and list(results["per_task"]) == ["RadioPlay"]
    tiny.create(tmp_path / "model", ["count to more less"], hidden=32, layers=1, heads=2, vision_hidden=16)
    (tmp_path / "mine.toml").write_text('[algorithm]\ntype = "rloo"\nscale = 2.0\ndynamic_sampling = false\n')
    words = f"""train --config {tmp_path}/mine.toml --model {tmp_path}/model --run-dir {tmp_path}/run
        --suite.type counters --suite.most 3 --train.iterations 1 --rollout.tasks_per_iteration 2
        --algorithm.group_size 2 --agent.screenshots 0 --agent.max_new_tokens 4 --rollout.workers 0
        --train.trajectories_every 1"""
    done = mobilerl(site, *words.split())
    assert done.returncode == 0, done.stderr
    saved = json.loads((tmp_path / "run" / "config.json").read_text())
    assert saved["suite"] == {"type": "counters", "most": 3}
    assert (saved["algorithm"]["type"], saved["algorithm"]["scale"]) == ("rloo", 2.0)
    assert "CountTo" in (tmp_path / "run" / "trajectories" / "iter-000001.jsonl").read_text()
    evaluation = f"eval counters --suite.most=3 --model {tmp_path}/run --out {tmp_path}/run/eval/final"
    assert f"mobilerl {evaluation}" in done.stdout
    with pytest.raises(ValueError, match="(suite|algorithm).type: Input should be"):
        read_saved(tmp_path / "run" / "config.json")  # here the package is not installed
    done = mobilerl(site, *evaluation.split(), "--trials", "2", "--instances", "3", "--keep")
    assert done.returncode == 0, done.stderr
    evaluated = json.loads((tmp_path / "run/eval/final/results.json").read_text())
    assert (evaluated["suite"], evaluated["trials"], evaluated["errors"]) == ("counters", 6, 0)
    assert evaluated["ci95"][0] <= evaluated["success_rate"] <= evaluated["ci95"][1]
    protocol = evaluated["protocol"]
    assert (protocol["suite.most"], protocol["agent"], protocol["agent.screenshots"]) == (3, "policy", 0)
    assert protocol["leak_guard"].startswith("passed") and protocol["weights_sha256"]
    assert mobilerl(site, "view", str(tmp_path / "run")).returncode == 0
    assert "counters/CountTo/100" in (tmp_path / "run/view/data/index.js").read_text()


@pytest.mark.slow
def test_a_suite_of_another_package_is_evaluated_like_our_own(site, tmp_path):
    """Also by scripted agents, and in parts; tasks that may be trained on are refused."""
    assert "counters" in mobilerl(site, "eval", "--help").stdout
    assert "Count to 2" in mobilerl(site, *"eval counters --suite.most 3 --list".split()).stdout
    words = f"eval counters --agent finish --instances 2 --out {tmp_path}/out".split()
    done = mobilerl(site, *words)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert (results["success_rate"], results["trials"], results["parts"]) == (0.0, 2, {})
    assert "these are its results" in mobilerl(site, *words).stdout
    for more, says in (
        ("--eval.instances 3", "--eval.instances: only for `mobilerl train`, not for `mobilerl eval PLUGIN`"),
        ("--template Nix", "--template Nix: the suite counters has no held-out tasks of it"),
        ("--suite.most 4", "suite.most"),
    ):
        refused = mobilerl(site, *words, *more.split())
        assert refused.returncode == 2 and says in refused.stderr
    example = site / "theirs" / "counters.py"
    parts = """{"low": self._made(HELD_OUT[:per_template]), "high": self._made(HELD_OUT[50:51])}"""
    example.write_text(example.read_text().replace('{"success_rate": self._made(HELD_OUT[:per_template])}', parts))
    assert "held-out high: 0.0%" in mobilerl(site, *words, "--replace").stdout
    example.write_text(example.read_text().replace("HELD_OUT[50:51]", "range(1)"))
    refused = mobilerl(site, *words, "--replace")
    assert refused.returncode == 2 and "leak: counters/CountTo/0 is to be evaluated on" in refused.stderr


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
