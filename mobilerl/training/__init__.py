"""Training: the online loop, checkpoints, tracking."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mobilerl.config import Recipe


def train(recipe: Recipe, run_dir: str | Path, resume: bool = False) -> list[dict[str, Any]]:
    """Starts or resumes a run and returns the rows of its metrics.jsonl, one per iteration.

    It is `mobilerl.train`. Raises ConfigError for settings that cannot be used, before anything is written.
    """
    from mobilerl.training.unguarded import exit_if_imported_by_worker

    exit_if_imported_by_worker()  # before it imports torch
    from mobilerl.config import ConfigError
    from mobilerl.envs.blocking import outside
    from mobilerl.training import dry_run, online, tracking
    from mobilerl.training.run import Run

    run_dir = Path(run_dir)
    if not recipe.model and not resume:
        raise ConfigError("the recipe has no model: load_recipe(FILE, ['--model', 'DIR'])")
    run = Run.open(recipe, run_dir, resume)
    outside(lambda: dry_run.check(run))
    outside(lambda: online.train(run))
    return list(tracking.read_metrics(run_dir / "metrics.jsonl"))
