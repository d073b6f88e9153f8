"""Agent settings of a run: those of its checkpoint, those of its recipe, and flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from mobilerl.config import AgentSection, ConfigError, Recipe, load_recipe
from mobilerl.models.checkpoint_folder import save_agent
from mobilerl.train.run_dir import check_agent_flags, open_run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_text("{}")
    save_agent(AgentSection(history_thoughts=True, max_new_tokens=7, deadline_s=11.0), folder)
    return folder


def test_the_checkpoints_agent_is_used_with_the_recipes_deadline(tmp_path, model):
    recipe = Recipe(model=str(model), agent=AgentSection(deadline_s=3600.0))
    opened = open_run(recipe, tmp_path / "run", resume=False).agent
    assert (opened.history_thoughts, opened.max_new_tokens, opened.deadline_s) == (True, 7, 3600.0)
    assert open_run(recipe, tmp_path / "run", resume=True).agent == opened
    with pytest.raises(ConfigError, match="--resume"):
        open_run(recipe, tmp_path / "run", resume=False)
    with pytest.raises(ConfigError, match="no run to resume"):
        open_run(recipe, tmp_path / "other", resume=True)


def test_a_flag_that_the_checkpoint_would_override_is_refused(model):
    def check(*flags: str) -> None:
        check_agent_flags(load_recipe(None, ["--model", str(model), *flags]), flags)

    check("--agent.max_new_tokens", "7", "--agent.deadline_s=60", "--train.iterations", "2")
    with pytest.raises(ConfigError, match=r"--agent.max_new_tokens 8: .*trained with 7"):
        check("--agent.max_new_tokens", "8")
