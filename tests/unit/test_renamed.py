"""Old names of settings and packages are understood, and the new ones said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mobilerl.config import load_recipe, read_saved
from mobilerl.config.in_use import value_of
from mobilerl.config.renamed import RENAMED

ROOT = Path(__file__).parents[2]
FILE = """[collect]
workers = 3
[algorithm.replay]
gamma = 0.5
[algorithm.loss]
is_cap = 4.0
"""


def test_old_names_are_understood_and_the_new_ones_said(tmp_path, capsys):
    (tmp_path / "old.toml").write_text(FILE)
    recipe = load_recipe(tmp_path / "old.toml", ["--collect.workers", "2", "--algorithm.skip_above=0.9"])
    assert (recipe.rollout.workers, recipe.algorithm.max_response_prob) == (2, 0.9)
    assert (recipe.algorithm.replay.fraction, recipe.algorithm.loss.tis_cap) == (0.5, 4.0)
    said = capsys.readouterr().err
    assert "--collect.workers is called --rollout.workers now" in said
    assert "old.toml: algorithm.replay.gamma is called algorithm.replay.fraction now" in said


def test_a_run_of_an_earlier_version_is_read(tmp_path):
    (tmp_path / "config.json").write_text('{"collect": {"workers": 3}, "algorithm": {"loss": {"agg": "token-mean"}}}')
    recipe = read_saved(tmp_path / "config.json")
    assert (recipe.rollout.workers, recipe.algorithm.loss.loss_aggregation) == (3, "token-mean")


@pytest.mark.parametrize("name", RENAMED.values())
def test_every_new_name_is_that_of_a_setting_or_section(name):
    assert value_of(name, {}) is not None


@pytest.mark.parametrize("name", ["envs", "sft"])
def test_a_folder_of_a_clone_is_not_imported_by_its_short_name(name):
    done = subprocess.run([sys.executable, "-c", f"import {name}.base"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode and f"imported as mobilerl.{name}" in done.stderr
