"""Opening a run directory for a new or a resumed run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.claims import check_claim, left_by_a_run
from mobilerl.config.flags import read_flags
from mobilerl.config.reading import CONFIG_FILE
from mobilerl.models.checkpoint_folder import check_checkpoint, latest, read_agent
from mobilerl.policy.formats.choice import published_name, with_format


def check_run_dir(recipe: Recipe, run_dir: Path, resume: bool) -> None:
    """Raises ConfigError unless a new run may use the directory, or a resumed one has the same recipe apart from
    settings that may differ. Writes nothing: `RunLog` saves the recipe.
    """
    exists = (run_dir / CONFIG_FILE).is_file()
    if resume and not exists:
        raise ConfigError(f"{run_dir} holds no run to resume; omit --resume to start one")
    if exists and not resume and left_by_a_run(run_dir):
        raise ConfigError(f"{run_dir} already holds a run; continue it with --resume, or choose another --run-dir")
    if not exists:
        check_checkpoint(recipe.model)
    check_claim(recipe, run_dir, "train", latest(run_dir) is not None)


def with_checkpoints_agent(recipe: Recipe, flags: Sequence[str] = ()) -> Recipe:
    """The recipe with the agent settings of its checkpoint, since a policy must see and act as in its training.

    A published model has no such settings and uses its own action format unless the recipe sets another. The recipe's
    episode deadline is kept, because it depends on the devices and not on the policy. Raises ConfigError for one of the
    command line's `flags` that is overridden; the recipe file only gives defaults for models without settings.
    """
    if not recipe.model:
        return recipe
    agent = read_agent(recipe.model) or with_format(recipe.agent, published_name(recipe.model))
    agent = agent.model_copy(update={"deadline_s": recipe.agent.deadline_s})
    for name in read_flags(flags).get("agent", {}):
        wanted, kept = getattr(recipe.agent, name), getattr(agent, name)
        if wanted != kept:
            raise ConfigError(
                f"--agent.{name} {wanted}: {recipe.model} was trained with {kept}; omit the flag, or set it for SFT"
            )
    return recipe.model_copy(update={"agent": agent})
