"""Recipes whose devices are containers with AndroidWorld: what fits together, and what each container is."""

from __future__ import annotations

import re
import textwrap

import pytest

from mobilerl.config import ConfigError, load_recipe
from mobilerl.suites.fleet import container_settings


@pytest.fixture
def recipe_file(pytestconfig, tmp_path):
    """The recipe of docs/benchmarks.md."""
    text = (pytestconfig.rootpath / "docs/benchmarks.md").read_text()
    path = tmp_path / "world.toml"
    path.write_text(textwrap.dedent(re.search(r"^    # world\.toml\n(?:    .*\n)+", text, re.MULTILINE)[0]))
    return path


def test_the_recipe_of_the_docs_publishes_adb_and_the_server(recipe_file):
    made = container_settings(load_recipe(recipe_file))
    assert (made.image, made.http_port) == ("mobilerl-androidworld", 5000)
    assert made.kvm and made.command == ()
    assert container_settings(load_recipe(None, ["--fleet.type", "docker"])).http_port == 0


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--fleet.image", "mobilerl-phone"], "set fleet.image"),
        (["--fleet.memory_mb", "512"], "fleet.memory_mb"),
        (["--fleet.reset", "app_data"], "fleet.reset"),
        (["--suite.servers", '["http://h:5000"]'], "leave one of them out"),
        (["--fleet.type", "adb", "--suite.servers", '["http://h:5000,s"]', "--fleet.serials", "s"], "URL,ADB_SERIAL"),
        (["--fleet.type", "embedded"], "suite.servers"),
        (["--rollout.workers", "2"], "rollout.workers = 0"),
    ],
)
def test_what_does_not_fit_is_told_in_one_line(recipe_file, flags, says):
    with pytest.raises(ConfigError) as error:
        load_recipe(recipe_file, flags)
    assert says in str(error.value) and "\n" not in str(error.value)
