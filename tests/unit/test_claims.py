"""A run directory belongs to its recipe: what may differ when a run is resumed, and what is refused."""

from __future__ import annotations

import argparse
import copy
import re
from pathlib import Path

import pytest

from mobilerl.config import ConfigError, Recipe, load_recipe, read_saved
from mobilerl.config.claims import claim, find_conflicts, may_differ
from mobilerl.config.flags import add_flags
from mobilerl.config.in_use import names

ROOT = Path(__file__).parents[2]


def test_a_run_directory_belongs_to_its_recipe(tmp_path):
    run_dir = tmp_path / "runs" / "mine"
    claim(load_recipe(None), run_dir, "train")
    claim(load_recipe(None, ["--phone.popup_rate", "0.2"]), run_dir, "train")  # nothing has happened yet
    (run_dir / "metrics.jsonl").touch()
    moved = ["--phone.popup_rate", "0.2", "--fleet.type", "adb", "--fleet.serials", "h:1", "--train.iterations", "9"]
    claim(load_recipe(None, moved), run_dir, "train")
    saved = read_saved(run_dir / "config.json")
    assert (saved.fleet.serials, saved.fleet.count, saved.train.iterations) == (("h:1",), 1, 9), "what is running now"
    other = load_recipe(None, ["--train.seed", "4", "--train.iterations", "8", "--model", "elsewhere"])
    with pytest.raises(ConfigError) as caught:
        claim(other, run_dir, "train")
    said = "model is 'elsewhere', and '' there; phone.popup_rate is 0.5, and 0.2 there; train.seed is 4, and 0 there"
    assert said in str(caught.value) and "iterations" not in str(caught.value)
    assert read_saved(run_dir / "config.json") == saved, "a refused recipe writes nothing"
    kept = load_recipe(None, ["--phone.popup_rate", "0.2", "--model", "elsewhere"])
    claim(kept, run_dir, "train", has_checkpoint=True)


@pytest.mark.parametrize("kind", ["adagrpo", "gigpo", "digirl", "distrl", "filtered_bc"])
def test_every_setting_may_differ_or_is_refused_with_both_values(kind):
    before, allowed = Recipe(algorithm={"type": kind}).model_dump(), set()
    for name in names(before):
        after = copy.deepcopy(before)
        table = after
        *sections, setting = name.split(".")
        for section in sections:
            table = table[section]
        table[setting] = {"suite.type": "generated", "algorithm.type": "digirl" if kind != "digirl" else "gigpo"}.get(
            name, "other"
        )
        said = find_conflicts(before, after, "train", has_checkpoint=False)
        assert not said or said[0].startswith(f"{name} is {table[setting]!r}, and "), said
        allowed |= set() if said else {name}
    assert {"fleet.serials", "fleet.hosts", "fleet.count", "tracking.wandb", "cluster.nodes", "judge.url"} <= allowed
    assert {"train.checkpoint_every", "rollout.workers", "agent.deadline_s"} <= allowed
    forbidden = {"model", "train.seed", "algorithm.learning_rate", "algorithm.type", "judge.model", "phone.popup_rate"}
    assert not forbidden & allowed and 0.2 < len(allowed) / len(list(names(before))) < 0.8


def flags() -> list[argparse.Action]:
    parser = argparse.ArgumentParser(add_help=False)
    add_flags(parser)
    return parser._actions


def test_the_documentation_lists_what_may_differ():
    page = (ROOT / "docs" / "recipes.md").read_text()
    rows = re.findall(r"^\| `\[?([\w.]*)\]?` \| (.+) \|$", page.partition("### Resuming")[2], re.MULTILINE)
    listed = set()
    known = {action.dest for action in flags()}
    for section, settings in rows:
        inside = {name for name in known if name.startswith(f"{section}.")}
        listed |= inside if settings == "all" else {f"{section}.{s}" for s in re.findall(r"`(\w+)`", settings)}
    under = [{"algorithm": {"type": "digirl"}}, {"suite": {"type": "androidworld"}}, {"suite": {"type": "androidlab"}}]
    free = {name for name in known if any(may_differ(name, tables, "train", False) for tables in under)}
    free = {name for name in free if name.partition(".")[0] not in ("sft", "tiny", "pages", "dpo")}
    free |= {name for name in known if name.startswith("sft.") and may_differ(name, {}, "sft", False)}
    assert free == listed
