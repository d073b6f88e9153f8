"""A run directory's claim: one recipe's run, new or resumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.reading import CONFIG_FILE, claim, read_flags
from mobilerl.setup import check_checkpoint, read_agent

MAY_CHANGE = ("train.iterations", "train.max_minutes", "train.max_env_steps")
"""How long a run lasts may be changed when it goes on."""


def open_run(recipe: Recipe, run_dir: Path, resume: bool) -> Recipe:
    """Claims the run directory for the recipe, or checks that it is the same recipe's."""
    saved = run_dir / CONFIG_FILE
    if not saved.is_file():
        if resume:
            raise ConfigError(f"{run_dir} holds no run to resume; leave --resume out to start one")
        check_checkpoint(recipe.model)
        recipe = with_checkpoints_agent(recipe)
        claim(recipe, run_dir)
        return recipe
    if not resume:
        raise ConfigError(f"{run_dir} already holds a run; go on with it by --resume, or choose another --run-dir")
    recipe = with_checkpoints_agent(recipe)
    claim(recipe, run_dir, MAY_CHANGE)
    return recipe


def with_checkpoints_agent(recipe: Recipe) -> Recipe:
    """A policy must go on seeing and acting as it was trained to: its checkpoint's agent settings win.

    How long an episode may take is the devices' affair and not the policy's, so that stays the recipe's.
    """
    agent = read_agent(recipe.model) if recipe.model else None
    if agent is None:
        return recipe
    return recipe.model_copy(update={"agent": agent.model_copy(update={"deadline_s": recipe.agent.deadline_s})})


def check_agent_flags(recipe: Recipe, flags: Sequence[str]) -> None:
    """Raises ConfigError when the command line wants an agent other than the checkpoint's, whose settings hold.

    What the recipe file says is a default for models that bring no settings; a flag was typed to have an effect.
    """
    held = with_checkpoints_agent(recipe).agent
    for name in read_flags(flags).get("agent", {}):
        wanted, kept = getattr(recipe.agent, name), getattr(held, name)
        if wanted != kept:
            raise ConfigError(f"--agent.{name} {wanted}: {recipe.model} was trained with {kept}, and goes on with it; "
                              "leave the flag out, or give it to the warm-up")  # fmt: skip
