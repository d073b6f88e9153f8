"""What a run takes from its checkpoint and what from its recipe."""

from __future__ import annotations

from mobilerl.config import AgentSection, Recipe
from mobilerl.setup import read_agent, save_agent
from mobilerl.train.run_dir import open_run


def test_a_policy_acts_as_it_was_trained_and_its_episodes_last_as_long_as_the_recipe_says(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    for name in ("config.json", "model.safetensors"):
        (model / name).write_text("{}")
    save_agent(AgentSection(history_thoughts=True, max_new_tokens=7, deadline_s=11.0), model)
    recipe = Recipe(model=str(model), agent=AgentSection(deadline_s=3600.0))
    opened = open_run(recipe, tmp_path / "run", resume=False).agent
    assert (opened.history_thoughts, opened.max_new_tokens, opened.deadline_s) == (True, 7, 3600.0)
    assert read_agent(model).deadline_s == 11.0
    assert open_run(recipe, tmp_path / "run", resume=True).agent == opened
