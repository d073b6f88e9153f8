"""Recipes of MiniWoB++: what fits together, and how seeds are divided. No browser is started."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from mobilerl.config import ConfigError, load_recipe
from mobilerl.envs.miniwob.tasks import is_held_out
from mobilerl.suites.base import demonstrated_tasks, make_suite
from mobilerl.suites.miniwob.oracle import SCRIPTS

RECIPES = Path(__file__).parents[2] / "recipes/miniwob"
needs_miniwob = pytest.mark.skipif(find_spec("miniwob") is None, reason="needs miniwob")


def recipe(*flags: str):
    return load_recipe(RECIPES / "adagrpo.toml", flags)


def test_pages_and_phones_have_their_own_suites():
    with pytest.raises(ConfigError, match='does not fit suite.type = "miniwob": set fleet.type to "browser"'):
        recipe("--fleet.type", "embedded")
    with pytest.raises(ConfigError, match='does not fit suite.type = "phone": set fleet.type to "embedded" or'):
        recipe("--suite.type", "phone")


@needs_miniwob
def test_instances_for_training_developing_and_testing_have_seeds_of_their_own():
    suite = make_suite(recipe())
    trained = [*suite.open()[0], *demonstrated_tasks(recipe(), range(3))]
    held_out = suite.held_out(2)["success_rate"]
    assert len({task.template for task in trained}) == len({task.template for task in held_out}) == 25
    assert not any(map(is_held_out, trained)) and all(map(is_held_out, held_out))


@needs_miniwob
def test_experts_demonstrate_only_the_recipes_tasks():
    sft = load_recipe(RECIPES / "sft.toml", [])
    shown = {task.template for task in demonstrated_tasks(sft, range(1))}
    assert shown == set(sft.tasks.templates) and len(shown) == 15 and shown <= SCRIPTS.keys()


@needs_miniwob
def test_an_unknown_task_is_named():
    with pytest.raises(ConfigError, match="tasks.templates: MiniWoB\\+\\+ has no task 'click-nothing'"):
        make_suite(recipe("--tasks.templates", '["click-nothing"]')).check()
