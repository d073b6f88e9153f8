"""Opening a run directory for a new or a resumed run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.flags import read_flags
from mobilerl.config.reading import CONFIG_FILE, claim
from mobilerl.models.checkpoint_folder import check_checkpoint, latest, read_agent
from mobilerl.policy.formats.choice import published_name, with_format
from mobilerl.train.start_model import as_started

MAY_CHANGE = ("train.iterations", "train.max_minutes", "train.max_env_steps")
"""Settings that may differ when a run is resumed."""


def open_run(recipe: Recipe, run_dir: Path, resume: bool) -> Recipe:
    """Saves the recipe in a new run directory, or checks that a resumed run has the same recipe."""
    exists = (run_dir / CONFIG_FILE).is_file()
    if resume and not exists:
        raise ConfigError(f"{run_dir} holds no run to resume; omit --resume to start one")
    if exists and not resume:
        raise ConfigError(f"{run_dir} already holds a run; continue it with --resume, or choose another --run-dir")
    if not exists:
        check_checkpoint(recipe.model)
    recipe = with_checkpoints_agent(recipe)
    claim(as_started(recipe, run_dir), run_dir, (*MAY_CHANGE, "model") if latest(run_dir) else MAY_CHANGE)
    return recipe


def with_checkpoints_agent(recipe: Recipe) -> Recipe:
    """The recipe with the agent settings of its checkpoint, since a policy must see and act as in its training.

    A published model has no such settings and uses its own action format unless the recipe sets another. The recipe's
    episode deadline is kept, because it depends on the devices and not on the policy.
    """
    if not recipe.model:
        return recipe
    agent = read_agent(recipe.model) or with_format(recipe.agent, published_name(recipe.model))
    return recipe.model_copy(update={"agent": agent.model_copy(update={"deadline_s": recipe.agent.deadline_s})})


def check_agent_flags(recipe: Recipe, flags: Sequence[str]) -> None:
    """Raises ConfigError for a command-line flag that the checkpoint's agent settings would override.

    The recipe file is not checked: it only gives defaults for models without agent settings of their own.
    """
    used = with_checkpoints_agent(recipe).agent
    for name in read_flags(flags).get("agent", {}):
        wanted, kept = getattr(recipe.agent, name), getattr(used, name)
        if wanted != kept:
            raise ConfigError(
                f"--agent.{name} {wanted}: {recipe.model} was trained with {kept}; omit the flag, or set it for SFT"
            )
