"""What a run takes from its checkpoint and what from its recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from mobilerl.config import AgentSection, ConfigError, Recipe, load_recipe
from mobilerl.setup import read_agent, save_agent
from mobilerl.train.run_dir import check_agent_flags, open_run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_text("{}")
    save_agent(AgentSection(history_thoughts=True, max_new_tokens=7, deadline_s=11.0), folder)
    return folder


def test_a_policy_acts_as_it_was_trained_and_its_episodes_last_as_long_as_the_recipe_says(tmp_path, model):
    recipe = Recipe(model=str(model), agent=AgentSection(deadline_s=3600.0))
    opened = open_run(recipe, tmp_path / "run", resume=False).agent
    assert (opened.history_thoughts, opened.max_new_tokens, opened.deadline_s) == (True, 7, 3600.0)
    assert read_agent(model).deadline_s == 11.0
    assert open_run(recipe, tmp_path / "run", resume=True).agent == opened


@pytest.mark.parametrize("flags", [
    ("--agent.max_new_tokens", "7"), ("--agent.deadline_s=60",), ("--agent", '{"max_new_tokens": 7}'),
    ("--train.iterations", "2"),
])  # fmt: skip
def test_flags_that_leave_the_checkpoints_agent_as_it_is_pass(model, flags):
    check_agent_flags(load_recipe(None, ["--model", str(model), *flags]), flags)


@pytest.mark.parametrize("flags", [("--agent.max_new_tokens", "8"), ("--agent", '{"max_new_tokens": 8}')])
def test_a_flag_that_the_checkpoint_would_overrule_is_refused(model, flags):
    recipe = load_recipe(None, ["--model", str(model), *flags])
    with pytest.raises(ConfigError, match=r"--agent.max_new_tokens 8: .*model was trained with 7, .*leave the flag"):
        check_agent_flags(recipe, flags)
