"""Where the agent settings of an evaluation come from."""

from argparse import Namespace
from pathlib import Path

import pytest

from mobilerl.commands.evaluate_recipe import evaluation_recipe
from mobilerl.config import AgentSection, ConfigError
from mobilerl.setup import save_agent

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


def agent_of(*settings: str, model=None, config=None, agent="policy") -> tuple[AgentSection, list[str]]:
    said: list[str] = []
    args = Namespace(config=config, model=model and str(model), agent=agent)
    return evaluation_recipe(args, settings, OTHERWISE, said.append).agent, said


def test_a_checkpoints_settings_win_over_a_recipe_and_the_command_line_over_both(checkpoint, recipe_file):
    save_agent(AgentSection(screenshots=3, max_new_tokens=33, history_steps=None), checkpoint)
    agent, said = agent_of("--agent.max_new_tokens", "9", "--eval.trials=2", model=checkpoint, config=recipe_file)
    assert (agent.screenshots, agent.max_new_tokens, agent.history_steps) == (3, 9, None)
    assert said == ["agent settings from the checkpoint; from the command line: --agent.max_new_tokens"]


def test_a_checkpoints_picture_size_is_restored_unless_another_is_given(checkpoint):
    save_agent(AgentSection(), checkpoint)
    (checkpoint / "preprocessor_config.json").write_text('{"mobilerl_max_pixels": 1234}')
    args = Namespace(config=None, model=str(checkpoint), agent="policy")
    assert evaluation_recipe(args, (), OTHERWISE, print).engine.max_pixels == 1234
    assert evaluation_recipe(args, ("--engine.max_pixels", "99"), OTHERWISE, print).engine.max_pixels == 99
    assert evaluation_recipe(args, ("--engine", '{"max_pixels": 99}'), OTHERWISE, print).engine.max_pixels == 99
    lifted = evaluation_recipe(args, ("--engine.max_pixels", "null"), OTHERWISE, print)
    assert lifted.engine.max_pixels == 1234, "the checkpoint's own limit, which is what it is shown"
    again = evaluation_recipe(args, ("--agent", '{"history_steps": 1}'), OTHERWISE, print)
    assert again.agent == AgentSection(history_steps=1)


def test_a_damaged_image_processor_is_named(checkpoint):
    save_agent(AgentSection(), checkpoint)
    (checkpoint / "preprocessor_config.json").write_text("")
    with pytest.raises(ConfigError, match="preprocessor_config.json cannot be read"):
        evaluation_recipe(Namespace(config=None, model=str(checkpoint), agent="policy"), (), OTHERWISE, print)


@pytest.mark.parametrize("model", ["http://127.0.0.1:9/v1", "checkpoint", None])
def test_a_model_without_settings_has_the_recipes_or_the_suites(model, checkpoint, recipe_file):
    model = checkpoint if model == "checkpoint" else model
    agent, said = agent_of("--agent.max_new_tokens=9", model=model)
    assert (agent.screenshots, agent.max_new_tokens, said) == (2, 9, [])
    agent, said = agent_of(model=model, config=recipe_file)
    assert (agent.screenshots, agent.max_new_tokens, said) == (7, 70, [])


def test_a_scripted_agent_has_no_checkpoint(checkpoint):
    save_agent(AgentSection(screenshots=3), checkpoint)
    assert agent_of(model=checkpoint, agent="noop")[0].screenshots == 2
