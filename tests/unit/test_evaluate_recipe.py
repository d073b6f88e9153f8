"""Where the agent settings of an evaluation come from."""

from argparse import Namespace
from pathlib import Path

import pytest

from mobilerl.cli.evaluation_recipe import evaluation_recipe
from mobilerl.config import AgentSection
from mobilerl.models.checkpoint_folder import save_agent

OTHERWISE = ("--agent.screenshots=2", "--agent.max_new_tokens=4096", "--engine.max_pixels=500000")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    return folder


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text("[agent]\nscreenshots = 7\nmax_new_tokens = 70\n")
    return path


def agent_of(*settings: str, model=None, config=None, agent="policy") -> AgentSection:
    args = Namespace(config=config, model=model and str(model), agent=agent, out="out", suite="sim")
    return evaluation_recipe(args, settings, OTHERWISE).agent


def test_a_checkpoints_settings_win_over_a_recipe_and_the_command_line_over_both(checkpoint, recipe_file):
    save_agent(AgentSection(screenshots=3, max_new_tokens=33, history_steps=None), checkpoint)
    agent = agent_of("--agent.max_new_tokens", "9", model=checkpoint, config=recipe_file)
    assert (agent.screenshots, agent.max_new_tokens, agent.history_steps) == (3, 9, None)


def test_a_recipe_keeps_the_deadline_that_it_sets(checkpoint, recipe_file):
    save_agent(AgentSection(deadline_s=900), checkpoint)
    recipe_file.write_text("[agent]\ndeadline_s = 3600\n")
    assert agent_of(model=checkpoint, config=recipe_file).deadline_s == 3600
    assert agent_of("--agent.deadline_s", "9", model=checkpoint, config=recipe_file).deadline_s == 9
    recipe_file.write_text("[agent]\nscreenshots = 7\n")
    assert agent_of(model=checkpoint, config=recipe_file).deadline_s == agent_of(model=checkpoint).deadline_s == 900


def test_a_checkpoints_image_size_is_restored_unless_another_is_given(checkpoint):
    save_agent(AgentSection(), checkpoint)
    (checkpoint / "preprocessor_config.json").write_text('{"mobilerl_max_pixels": 1234}')
    args = Namespace(config=None, model=str(checkpoint), agent="policy", out="out", suite="sim")
    assert evaluation_recipe(args, (), OTHERWISE).engine.max_pixels == 1234
    assert evaluation_recipe(args, ("--engine.max_pixels", "99"), OTHERWISE).engine.max_pixels == 99
    lifted = evaluation_recipe(args, ("--engine.max_pixels", "null"), OTHERWISE)
    assert lifted.engine.max_pixels == 1234, "the checkpoint's own limit, which is what it is shown"
    again = evaluation_recipe(args, ("--agent.history_steps", "1"), OTHERWISE)
    assert again.agent == AgentSection(history_steps=1)


@pytest.mark.parametrize("model", ["http://127.0.0.1:9/v1", "checkpoint", None])
def test_a_model_without_settings_has_the_recipes_or_the_suites(model, checkpoint, recipe_file):
    model = checkpoint if model == "checkpoint" else model
    agent = agent_of("--agent.max_new_tokens=9", model=model)
    assert (agent.screenshots, agent.max_new_tokens) == (2, 9)
    agent = agent_of(model=model, config=recipe_file)
    assert (agent.screenshots, agent.max_new_tokens) == (7, 70)


def test_a_published_model_has_its_own_format_and_settings(tmp_path, recipe_file):
    folder = tmp_path / "Qwen3-VL-4B-Instruct"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    agent = agent_of(model=folder)
    assert (agent.format, agent.screenshots, agent.max_new_tokens) == ("qwen3-vl", 1, 2048)
    agent = agent_of("--agent.screenshots", "2", model=folder, config=recipe_file)
    assert (agent.format, agent.screenshots, agent.max_new_tokens) == ("qwen3-vl", 2, 70)
    agent = agent_of("--agent.layout", "chat", model=folder)
    assert (agent.format, agent.screenshots, agent.max_new_tokens) == (None, 2, 4096)
    agent = agent_of("--agent.format", "mobilerl", model=folder)
    assert (agent.format, agent.screenshots, agent.max_new_tokens) == ("mobilerl", 2, 4096)
    save_agent(AgentSection(), folder)
    assert agent_of(model=folder).format is None
