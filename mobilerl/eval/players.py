"""Who plays an evaluation on real phones: a model, or a script that needs none."""

from __future__ import annotations

from dataclasses import replace

from mobilerl.agent.context import prompt_hash
from mobilerl.config import ConfigError, Recipe
from mobilerl.eval.agents import scripted_actor
from mobilerl.eval.policies import Player, model_player
from mobilerl.eval.run import POLICY
from mobilerl.setup import LATE_WAIT_S, make_context

AGENTS = (POLICY, "noop", "finish", "random")


def make_player(
    recipe: Recipe, agent: str, model: str | None, model_name: str | None, temperature: float, seed: int
) -> Player:
    """Its `protocol` is all of the score that depends on who plays. Raises ConfigError for a model that cannot play."""
    if agent not in AGENTS:
        raise ConfigError(f"no agent is called {agent!r}; choose one of {', '.join(AGENTS)}")
    if agent != POLICY:
        if model is not None or model_name is not None:
            raise ConfigError(f"--agent {agent} plays without a model; leave --model and --model-name out")
        return Player(scripted_actor(agent, seed, ()), {"agent": agent})
    if model is None:
        raise ConfigError("--model is missing: a checkpoint folder, a run directory, or http://HOST:PORT/v1")
    # Real phones are never in step: batches do not wait for all of them.
    player = model_player(recipe, model, model_name, temperature, seed, LATE_WAIT_S)
    settings = recipe.agent.model_dump(exclude={"deadline_s", "max_invalid"})  # the suite has its own of the two
    return replace(player, protocol={
        "agent": POLICY,
        **player.protocol,
        "temperature": temperature,
        "prompt_hash": prompt_hash(make_context(recipe.agent)),
        **{f"agent.{name}": value for name, value in settings.items()},
        "max_pixels": recipe.engine.max_pixels,
    })  # fmt: skip
