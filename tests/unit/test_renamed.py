"""Old names of settings and packages are refused with the new ones; saved runs that have them are read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mobilerl.config import ConfigError, load_recipe, read_saved
from mobilerl.config.in_use import value_of
from mobilerl.config.renamed import REMOVED, RENAMED

ROOT = Path(__file__).parents[2]
FILE = """[collect]
workers = 3
[phone]
count = 5
[engine]
learning_rate = 0.25
[train]
mini_batch = 7
[algorithm.replay]
gamma = 0.5
[algorithm.loss]
is_cap = 4.0
"""


def test_old_names_are_refused_with_the_new_ones(tmp_path):
    (tmp_path / "old.toml").write_text(FILE)
    with pytest.raises(ConfigError) as refused:
        load_recipe(tmp_path / "old.toml", ["--collect.workers", "2", "--engine.inference=vllm"])
    mistakes = refused.value.args
    assert "--collect.workers is called --rollout.workers now" in mistakes
    assert "--engine.inference is called --engine.type now" in mistakes
    for old, new in {"collect": "rollout", "phone.count": "fleet.count", "algorithm.replay.gamma": "fraction"}.items():
        assert any(m.startswith(f"{tmp_path}/old.toml: {old}: it is called") and new in m for m in mistakes), old


def test_a_run_of_an_earlier_version_is_read(tmp_path):
    (tmp_path / "config.json").write_text('{"collect": {"workers": 3}, "algorithm": {"loss": {"agg": "token-mean"}}}')
    recipe = read_saved(tmp_path / "config.json")
    assert (recipe.rollout.workers, recipe.algorithm.loss.loss_aggregation) == (3, "token-mean")


@pytest.mark.parametrize(
    ("given", "engine"),
    [
        ({"inference": "vllm"}, "vllm"),
        ({"type": "local", "inference": "vllm"}, "vllm"),
        ({"type": "local", "inference": "local"}, "local"),
        ({"type": "verl", "inference": "local"}, "verl"),
    ],
)
def test_how_the_engine_of_a_saved_run_sampled_is_the_engine_now(given, engine, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"engine": given}))
    assert read_saved(tmp_path / "config.json").engine.type == engine


@pytest.mark.parametrize("name", REMOVED)
def test_a_setting_that_is_gone_is_refused_with_what_holds_now(name, tmp_path):
    section, _, field = name.partition(".")
    head, key = (f"[{name.rpartition('.')[0]}]", name.rpartition(".")[2]) if field else (f"[{name}]", "hidden")
    kind = 'type = "androidworld"\n' if section == "suite" else ""
    (tmp_path / "old.toml").write_text(f"{head}\n{kind}{key} = 7\n")
    flag = name if field else f"{name}.hidden"
    with pytest.raises(ConfigError) as refused:
        load_recipe(tmp_path / "old.toml", [f"--{flag}=7"])
    of_flag, of_file = refused.value.args
    said = f"it was removed, leave it out: {REMOVED[name][1]}"
    assert of_flag == f"--{flag}: {said}" and of_file == f"{tmp_path / 'old.toml'}: {name}: {said}"


def test_a_run_with_settings_that_are_gone_is_read_if_it_goes_on_as_before(tmp_path):
    saved = {name.partition(".")[0]: {} for name in REMOVED if name.count(".") < 2}
    for name, (values, _) in REMOVED.items():
        if values and name.count(".") == 1:
            saved[name.partition(".")[0]][name.partition(".")[2]] = values[0]
    saved |= {"suite": saved["suite"] | {"type": "androidworld", "servers": ["http://h:1"]}}
    saved |= {"tiny": {"hidden": 128}, "dpo": {"enabled": False}, "vllm": {"timeout_s": 1800.0}}
    (tmp_path / "config.json").write_text(json.dumps(saved))
    assert read_saved(tmp_path / "config.json").dpo.epochs == 0
    (tmp_path / "config.json").write_text(json.dumps(saved | {"judge": {"votes": 3}}))
    with pytest.raises(ConfigError, match="judge.votes: it was removed.*resume with that version"):
        read_saved(tmp_path / "config.json")


@pytest.mark.parametrize("name", RENAMED.values())
def test_every_new_name_is_that_of_a_setting_or_section(name):
    assert value_of(name, {}) is not None


@pytest.mark.parametrize("name", ["envs", "sft"])
def test_a_folder_of_a_clone_is_not_imported_by_its_short_name(name):
    done = subprocess.run([sys.executable, "-c", f"import {name}.base"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode and f"imported as mobilerl.{name}" in done.stderr
