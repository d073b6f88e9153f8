"""The checkpoint that comes with recipes/generated/: of the vocabulary and settings of the code, and able to play."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from mobilerl.config import load_recipe
from mobilerl.models import tiny
from mobilerl.models.checkpoint_folder import read_agent
from mobilerl.policy.context import make_context
from mobilerl.sft.data import SftData
from mobilerl.suites.evaluation import evaluate
from mobilerl.suites.generated.evaluation import GeneratedPlan

pytestmark = pytest.mark.e2e

FOLDER = Path(__file__).parents[2] / "recipes" / "generated"
CHECKPOINT = FOLDER / "checkpoint"


def test_it_knows_every_word_of_the_phone_and_of_generated_apps(tmp_path):
    """Whoever changes a word of these has to make the checkpoint anew: `made_by.json` has the command."""
    recipe = load_recipe(FOLDER / "sft.toml")
    texts = SftData(recipe, tmp_path, make_context(recipe.agent), print).texts
    now = tiny.build_word_tokenizer(texts).backend_tokenizer
    assert Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json")).get_vocab().keys() >= now.get_vocab().keys()


def test_it_was_made_with_the_settings_of_the_recipe():
    recipe = load_recipe(FOLDER / "sft.toml")
    made_by = json.loads((CHECKPOINT / "made_by.json").read_text())
    assert read_agent(CHECKPOINT) == recipe.agent
    assert (
        made_by["command"].startswith("mobilerl sft --config recipes/generated/sft.toml")
        and made_by["seed"] == recipe.train.seed
    )
    assert made_by["settings"]["suite"] == recipe.suite.model_dump(mode="json")


@pytest.mark.slow
def test_it_solves_tasks_of_the_development_split(tmp_path):
    recipe = load_recipe(FOLDER / "adagrpo.toml", ["--phone.popup_rate", "0"])
    recipe = recipe.model_copy(update={"agent": read_agent(CHECKPOINT)})
    plan = GeneratedPlan(split="dev", parts=("instances",), instances=4)
    results = evaluate(recipe, plan, "policy", CHECKPOINT, tmp_path)
    assert results["success_rate"] > 0.2  # 47 % of 132 when it was made
