"""Dry runs: the printed recipe reads back as it was, and what would stop the run is found without starting it."""

from __future__ import annotations

import json
import re
import tomllib

import pytest

from mobilerl.cli import main
from mobilerl.config import ConfigError, load_recipe
from mobilerl.models import tiny
from mobilerl.suites.base import make_suite
from mobilerl.training.dry_run import check_devices
from mobilerl.training.estimate import estimate
from mobilerl.training.run import Run

SMALL = ["--fleet.count", "2", "--rollout.tasks_per_iteration", "1", "--algorithm.group_size", "2"]
SMALL += ["--agent.max_new_tokens", "4"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny"
    tiny.create(path, ["open the settings"], hidden=32, layers=1, heads=2)
    return path


def test_dry_run_prints_a_recipe_that_can_be_used_and_leaves_nothing(checkpoint, tmp_path, capsys):
    run = tmp_path / "run"
    words = ["train", "--config", "adagrpo", "--rollout.workers", "0", "--dry-run", "--run-dir", str(run)]
    words += ["--model", str(checkpoint), "--engine.max_pixels", "null"]
    assert main([*words, *SMALL]) == 0
    said = capsys.readouterr()
    assert re.search(r"likely time: .* an iteration .* Measured on this machine", said.err)
    assert not run.exists() and "was not started" in said.err
    assert "a CPU is enough" in said.err and "one GPU of" not in said.err
    assert re.search(r"disk: about .* needed \(3 checkpoints x .* free in", said.err)
    (tmp_path / "resolved.toml").write_text(said.out)
    assert tomllib.loads(said.out)["model"] == str(checkpoint)
    assert main(["train", "--dry-run", "--run-dir", str(run), "--config", str(tmp_path / "resolved.toml")]) == 0
    assert capsys.readouterr().out == said.out


def test_the_time_of_a_run_comes_from_what_there_is_to_go_by(checkpoint, tmp_path):
    recipe = load_recipe(None, ["--model", str(checkpoint), *SMALL, "--train.iterations", "9"])
    rows = [{"iteration": n, "time_s": 60.0 * n} for n in range(1, 4)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = Run(recipe, tmp_path, True, make_suite(recipe))
    assert estimate(run).startswith("likely time left: 6 min, as long as the last iterations")
    docker = load_recipe(None, ["--model", str(checkpoint), "--fleet.type", "docker", "--train.max_minutes", "30"])
    said = estimate(Run(docker, tmp_path, False, make_suite(docker)))
    assert said.startswith("at most 30 minutes; no estimate of the time: the devices would have to be started")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--fleet.type", "adb", "--fleet.serials", '["a,b"]'), "'a,b'"),
        (("--fleet.type", "adb", "--fleet.serials", '["emulator-5554","localhost:5555"]'), "twice"),
        (("--fleet.type", "adb", "--fleet.serials", '["h:1","h:1"]', "--fleet.count", "2"), "twice"),
        (("--fleet.type", "adb", "--fleet.serials", '["h:1"]', "--fleet.count", "2.0"), "2 are wanted"),
        (("--fleet.type", "docker", "--fleet.environment", '["MOBILERL_NIX"]'), "MOBILERL_NIX"),
    ],
)
def test_devices_that_cannot_be_used(flags, says):
    with pytest.raises(ConfigError, match=says):
        check_devices(load_recipe(None, list(flags)))


def test_an_existing_run_is_checked(checkpoint, tmp_path, capsys):
    run = tmp_path / "run"
    words = ["train", "--config", "adagrpo", "--dry-run", "--run-dir", str(run), "--model", str(checkpoint)]
    assert main([*words, "--resume"]) == 2
    assert f"{run} holds no run to resume" in capsys.readouterr().err
    run.mkdir()
    (run / "config.json").write_text(load_recipe("adagrpo", ["--model", str(checkpoint)]).model_dump_json())
    (run / "metrics.jsonl").touch()
    assert main(words) == 2
    assert f"{run} already holds a run" in capsys.readouterr().err
    assert main([*words, "--resume", "--train.seed", "5"]) == 2
    assert "train.seed is 5, and 0 there" in capsys.readouterr().err
    assert json.loads((run / "config.json").read_text())["train"]["seed"] == 0
