"""Recipes of MobileGym: what fits together. No browser and no Python of MobileGym is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from mobilerl.config import ConfigError, load_recipe
from mobilerl.envs.base import Task
from mobilerl.suites.base import is_held_out, make_suite

RECIPES = sorted((Path(__file__).parents[2] / "recipes/mobilegym").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_recipes_train_on_pages_and_share_partial_rewards(path):
    recipe = load_recipe(path)
    assert recipe.suite.type == "mobilegym" and recipe.fleet.type == "browser"
    assert recipe.suite.reward == "progress" and not recipe.algorithm.spa


def test_what_is_missing_is_named(tmp_path):
    flags = ["--suite.type", "mobilegym", "--fleet.type", "browser"]
    with pytest.raises(ConfigError, match='suite.type = "mobilegym" needs suite.checkout, your checkout of MobileGym'):
        load_recipe(None, flags)
    with pytest.raises(ConfigError, match='does not fit suite.type = "mobilegym": set fleet.type to "browser"'):
        load_recipe(None, [*flags[:2], "--suite.checkout", str(tmp_path)])
    suite = make_suite(load_recipe(None, [*flags, "--suite.checkout", str(tmp_path)]))
    with pytest.raises(ConfigError, match="suite.checkout: .* is no checkout of MobileGym"):
        suite.check()


def test_only_the_tasks_for_training_are_not_held_out():
    def task(split: str) -> Task:
        return Task("mobilegym/a.B/0", "a.B", "", {"split": split}, 1, 30, "mobilegym")

    assert [is_held_out(task(split)) for split in ("train", "test", "payment")] == [False, True, True]
