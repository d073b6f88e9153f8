"""Old names of settings are refused with the new ones."""

from __future__ import annotations

import pytest

from mobilerl.config import ConfigError, load_recipe
from mobilerl.config.in_use import value_of
from mobilerl.config.renamed import RENAMED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("collect.workers", "rollout.workers"),
        ("algorithm.replay.gamma", "algorithm.replay.fraction"),
        ("algorithm.loss.is_cap", "algorithm.loss.tis_cap"),
    ],
)
def test_an_old_name_is_refused_with_the_new_one(tmp_path, old, new):
    with pytest.raises(ConfigError, match=f"--{old}: this is called --{new} now"):
        load_recipe(None, [f"--{old}", "1"])
    section, _, key = old.rpartition(".")
    (tmp_path / "old.toml").write_text(f"[{section}]\n{key} = 1\n")
    with pytest.raises(
        ConfigError, match=rf"old\.toml: [a-z_.]+: this is called {new.removesuffix('.workers')}\S* now"
    ):
        load_recipe(tmp_path / "old.toml")


@pytest.mark.parametrize("name", RENAMED.values())
def test_every_new_name_is_that_of_a_setting_or_section(name):
    assert value_of(name, {}) is not None
