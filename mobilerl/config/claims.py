"""The recipe of a run directory, `config.json`: which settings may differ when the run is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mobilerl.config.flags import ConfigError, quote
from mobilerl.config.in_use import Tables, differing, info_of, is_read_by, value_of
from mobilerl.config.marks import Resumable, format_value
from mobilerl.config.reading import CONFIG_FILE, read_saved, save_recipe
from mobilerl.config.recipe import Recipe

OF_A_RUN = ("metrics.jsonl", "checkpoints", "trajectories", "init", "pages")
"""Files that a run leaves in its directory. Without any of them, a start has failed before it did anything."""
MOST_NAMED = 4
"""Maximum number of differing settings that a message names."""


def left_by_a_run(run_dir: Path) -> str:
    """A file that a run has left in the directory; empty if there is none."""
    return next((name for name in OF_A_RUN if (run_dir / name).exists()), "")


def check_claim(recipe: Recipe, run_dir: Path, command: str, has_checkpoint: bool = False) -> None:
    """Raises ConfigError if the directory has a run whose recipe differs in a setting that the command must not change,
    naming both values, or files of a run without a recipe.
    """
    saved, left = run_dir / CONFIG_FILE, left_by_a_run(run_dir)
    if left and not saved.is_file():
        raise ConfigError(
            f"{run_dir} has {left} of a run, but no {CONFIG_FILE}: put it back, or choose another --run-dir"
        )
    if not left:
        return
    changed = find_conflicts(read_saved(saved).model_dump(), recipe.model_dump(), command, has_checkpoint)
    if changed:
        more = f"; {len(changed) - MOST_NAMED} more differ" if len(changed) > MOST_NAMED else ""
        raise ConfigError(
            f"{run_dir} belongs to another recipe: {'; '.join(changed[:MOST_NAMED])}{more}: continue with the settings "
            f"of {saved}, or choose another --run-dir"
        )


def claim(recipe: Recipe, run_dir: Path, command: str, has_checkpoint: bool = False) -> None:
    """Writes the recipe into its run directory. Raises ConfigError as `check_claim` does."""
    check_claim(recipe, run_dir, command, has_checkpoint)
    run_dir.mkdir(parents=True, exist_ok=True)
    save_recipe(recipe, run_dir / CONFIG_FILE)


def find_conflicts(before: Tables, after: Tables, command: str, has_checkpoint: bool) -> list[str]:
    """The settings that differ and must not, each with both values."""
    changed = sorted(
        differing(before, after), key=lambda name: not name.endswith(".type")
    )  # what explains others first
    return [
        f"{name} is {_short(value_of(name, after))}, and {_short(value_of(name, before))} there"
        for name in changed
        if not may_differ(name, after, command, has_checkpoint)
    ]


def may_differ(name: str, under: Tables, command: str, has_checkpoint: bool) -> bool:
    """Whether a setting of a run of `command` may differ when it is resumed: it does not change what is learned."""
    marks = (mark for info in info_of(name, under) for mark in info.metadata if isinstance(mark, Resumable))
    return any(has_checkpoint or not mark.from_checkpoint for mark in marks) or not is_read_by(name, under, command)


def _short(value: Any) -> str:
    return quote(format_value(value))
