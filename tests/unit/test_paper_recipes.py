"""The recipes with the papers' values: each loads, gives its sources, and has nothing of the tiny model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mobilerl.cli import make_parser
from mobilerl.cli.run import pipeline_of
from mobilerl.config import load_recipe
from mobilerl.config.layers import read_layers

FILES = sorted((Path(__file__).parents[2] / "recipes" / "paper").glob("*.toml"))
SETTING = re.compile(r"(\w+) = [^#]+?(?:\s+(#.+))?")
SOURCE = re.compile(r"# (?:(?:MobileRL|DigiRL|DistRL|ReachAgent), .+|not published: our choice, because .+)")
paper_recipe = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@paper_recipe
def test_every_value_says_where_it_is_from(path):
    found = [SETTING.fullmatch(line) for line in path.read_text().splitlines()]
    comments = {match[0]: match[2] or "" for match in found if match and match[1] != "extends"}
    assert comments and [line for line, comment in comments.items() if not SOURCE.fullmatch(comment)] == []


@paper_recipe
def test_it_loads_without_the_tiny_model(path):
    recipe, files = load_recipe(path), read_layers(path)
    assert not any("tiny" in name for name in files) and "generated/checkpoint" not in recipe.model
    mobilerl = path.stem.startswith("mobilerl")
    assert recipe.agent.format == ("mobilerl-9b" if mobilerl else None)
    assert bool(recipe.model) == path.stem.endswith("-sft"), "RL starts from the SFT's checkpoint"
    assert recipe.engine.type != "verl" or recipe.engine.micro_batch_tokens >= recipe.vllm.max_prompt


@pytest.mark.parametrize("size", ["7b", "9b"])
def test_one_command_runs_all_of_mobilerl(size):
    args, rest = make_parser().parse_known_args(["run", f"paper/mobilerl-{size}"])
    pipeline = pipeline_of(args, rest)
    assert (pipeline.kind, Path(pipeline.table.sft).stem) == ("train", f"mobilerl-{size}-sft")
    assert {"verl", "docker", "androidworld"} <= set(pipeline.extras())


def test_mobilerls_ablations_are_flags():
    flags = ["--algorithm.replay.fraction", "0", "--algorithm.spa", "false", "--algorithm.curriculum.type", "uniform"]
    algorithm = load_recipe("paper/mobilerl-7b", flags).algorithm
    assert (algorithm.replay.fraction, algorithm.spa, algorithm.curriculum.type) == (0, False, "uniform")
