"""Old names of settings and packages are refused with the new ones; saved runs that have them are read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mobilerl.config import ConfigError, load_recipe, read_saved
from mobilerl.config.in_use import value_of
from mobilerl.config.renamed import RENAMED

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


@pytest.mark.parametrize("name", RENAMED.values())
def test_every_new_name_is_that_of_a_setting_or_section(name):
    assert value_of(name, {}) is not None


@pytest.mark.parametrize("name", ["envs", "sft"])
def test_a_folder_of_a_clone_is_not_imported_by_its_short_name(name):
    done = subprocess.run([sys.executable, "-c", f"import {name}.base"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode and f"imported as mobilerl.{name}" in done.stderr
