"""Dry runs: the printed recipe reads back as it was, and what would stop the run is found without starting it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from envs.phone.env import PhoneEnv
from mobilerl.cli import main
from mobilerl.config import ConfigError, Recipe, load_recipe
from mobilerl.config.toml import null_flags, to_toml
from mobilerl.config.training import SftSection, SourceSection
from mobilerl.train.dry_run import check_devices, check_writable


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    from mobilerl import tiny
    from sft.vocabulary import corpus

    path = tmp_path_factory.mktemp("model") / "tiny"
    tiny.create(path, corpus(PhoneEnv("sim-0", 360, 720, 0.0)))
    return path


# --- TOML --------------------------------------------------------------------------------------------------------


def read_back(recipe: Recipe, tmp_path) -> Recipe:
    (tmp_path / "again.toml").write_text(to_toml(recipe))
    return load_recipe(tmp_path / "again.toml", null_flags(recipe))


ODD = 'a "quoted" \\ back\tslash\x7f\x01 ünï☂🦊 = # [x]'


@pytest.mark.parametrize("name", ["adagrpo.toml", "sft.toml", "filtered_bc.toml"])
def test_a_resolved_recipe_reads_back_equal(name, tmp_path, pytestconfig):
    recipe = load_recipe(pytestconfig.rootpath / "recipes" / name, ["--algorithm.loss.is_cap", "null"])
    assert null_flags(recipe) == ["--algorithm.loss.is_cap", "null"]
    assert read_back(recipe, tmp_path) == recipe


def test_odd_values_read_back_equal(tmp_path):
    sources = (SourceSection(format="aitw", path=ODD, weight=1e-7), SourceSection(format="mobile3m", path="b"))
    recipe = Recipe(
        model=ODD, sft=SftSection(sources=sources, learning_rate=1e-05),
        fleet={"environment": ("A=1", ODD), "type": "docker"}, train={"seed": -3},
    )  # fmt: skip
    assert read_back(recipe, tmp_path) == recipe
    assert read_back(Recipe(), tmp_path) == Recipe()


def test_changed_values_name_their_default():
    text = to_toml(load_recipe(None, ["--train.seed", "7", "--collect.temperature", "0.5"]))
    assert "seed = 7  # default 0" in text and "temperature = 0.5  # default 1.0" in text
    assert text.count("# default") == 2 and "\n# history_steps = null\n" in text


# --- the commands ------------------------------------------------------------------------------------------------


def test_dry_run_prints_a_recipe_that_can_be_used_and_leaves_nothing(checkpoint, tmp_path, capsys):
    run = tmp_path / "run"
    words = ["train", "--dry-run", "--run-dir", str(run), "--model", str(checkpoint), "--algorithm.loss.is_cap", "null"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert not run.exists() and "nothing was started" in said.err
    (tmp_path / "resolved.toml").write_text(said.out)
    assert tomllib.loads(said.out)["model"] == str(checkpoint)
    assert "give as well: --algorithm.loss.is_cap null" in said.out
    again = ["train", "--dry-run", "--run-dir", str(run), "--config", str(tmp_path / "resolved.toml")]
    assert main([*again, "--algorithm.loss.is_cap", "null"]) == 0
    assert capsys.readouterr().out == said.out


def test_dry_run_of_the_warm_up(tmp_path, capsys):
    assert main(["sft", "--dry-run", "--run-dir", str(tmp_path / "run"), "--sft.stage2_rounds", "3"]) == 0
    said = capsys.readouterr()
    assert tomllib.loads(said.out)["sft"]["stage2_rounds"] == 3 and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--fleet.type", "adb", "--fleet.serials", '["a b"]'), "'a b' is no serial"),
        (
            ("--fleet.type", "adb", "--fleet.serials", '["h:5555","h:5555"]', "--phone.count", "2"),
            "names a device twice",
        ),
        (
            ("--fleet.type", "adb", "--fleet.serials", '["h:5555"]', "--phone.count", "2"),
            "names 1 devices, 2 are wanted",
        ),
        (("--fleet.type", "docker", "--fleet.environment", '["MOBILERL_NIX"]'), "MOBILERL_NIX is not set here"),
    ],
)
def test_devices_that_cannot_be_used(flags, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        check_devices(load_recipe(None, list(flags)))


def test_serials_as_adb_prints_them_are_taken():
    serials = ["emulator-5554", "R58M12ABCDE", "192.168.0.5:5555", "avd-3.1:5555", "[fe80::1]:5555"]
    flags = ["--fleet.type", "adb", "--phone.count", "5", "--fleet.serials", json.dumps(serials)]
    check_devices(load_recipe(None, flags))


def test_a_run_directory_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file"):
        check_writable(tmp_path / "file" / "run")
    check_writable(tmp_path / "not" / "yet")
    with pytest.raises(ConfigError, match="no permission|is a file"):
        check_writable(Path("/proc/version/run"))


def test_a_run_that_is_there_is_minded(checkpoint, tmp_path, capsys):
    run = tmp_path / "run"
    words = ["train", "--dry-run", "--run-dir", str(run), "--model", str(checkpoint)]
    assert main([*words, "--resume"]) == 2
    assert f"{run} holds no run to resume" in capsys.readouterr().err
    run.mkdir()
    (run / "config.json").write_text(load_recipe(None, ["--model", str(checkpoint)]).model_dump_json())
    assert main(words) == 2
    assert f"{run} already holds a run" in capsys.readouterr().err
    assert main([*words, "--resume", "--train.seed", "5"]) == 2
    assert "train.seed differ" in capsys.readouterr().err
    assert json.loads((run / "config.json").read_text())["train"]["seed"] == 0


def test_weights_cut_short_are_noticed_before_anything_starts(checkpoint, tmp_path, capsys):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(checkpoint, copy)
    with open(copy / "model.safetensors", "r+b") as f:
        f.truncate(5000)
    assert main(["train", "--dry-run", "--run-dir", str(tmp_path / "run"), "--model", str(copy)]) == 2
    assert "cannot be read as a vision-language checkpoint" in capsys.readouterr().err
