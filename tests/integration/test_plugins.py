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
        return {}


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
    with pytest.raises(ValueError, match="(suite|algorithm).type: Input should be"):
        read_saved(tmp_path / "run" / "config.json")  # here the package is not installed


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
