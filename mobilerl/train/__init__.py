"""Training: the online loop, checkpoints, tracking. The package can be called: `mobilerl.train(recipe, run_dir)`."""

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mobilerl.config import Recipe


class _Package(ModuleType):
    """Makes the package callable, since `from mobilerl import train` always finds the package."""

    def __call__(self, recipe: "Recipe", run_dir: str | Path, resume: bool = False) -> list[dict[str, Any]]:
        """Starts or resumes a run and returns the rows of its metrics.jsonl, one per iteration.

        Raises ConfigError for settings that cannot be used, before anything is written.
        """
        from mobilerl.train.unguarded import exit_if_imported_by_worker

        exit_if_imported_by_worker()
        from mobilerl.config import ConfigError
        from mobilerl.envs.blocking import outside
        from mobilerl.train import dry_run, online, tracking
        from mobilerl.train.run import Run

        run_dir = Path(run_dir)
        if not recipe.model and not resume:
            raise ConfigError("the recipe has no model: load_recipe(FILE, ['--model', 'DIR'])")
        run = Run.open(recipe, run_dir, resume)
        outside(lambda: dry_run.check(run))
        outside(lambda: online.train(run))
        return list(tracking.read_metrics(run_dir / "metrics.jsonl"))


sys.modules[__name__].__class__ = _Package
