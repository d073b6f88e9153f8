"""`--dry-run`: checks that a recipe can run and prints it fully resolved.

The resolved recipe goes to standard output and can be saved and used; the rest goes to standard error.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.reading import to_toml
from mobilerl.engines.registry import engine_kind
from mobilerl.judge.scorer import own_scorer
from mobilerl.models.memory import hardware
from mobilerl.models.text_models import check_screenshots
from mobilerl.suites.base import device_warnings
from mobilerl.suites.fleet import check_devices
from mobilerl.system.terminal import say
from mobilerl.training.checkpoint import latest
from mobilerl.training.checkpoint_files import check_files, vocabulary_size
from mobilerl.training.disk import disk
from mobilerl.training.estimate import estimate
from mobilerl.training.history import read_history
from mobilerl.training.mirrors import check_mirrors
from mobilerl.training.offline import check_offline_trajectories
from mobilerl.training.run import Run
from mobilerl.training.run_dir import check_run_dir


def dry_run(run: Run) -> int:
    """Runs `mobilerl train --dry-run`. Raises ConfigError for anything that would stop the run at startup."""
    check(run)
    recipe, run_dir = run.recipe, run.run_dir
    check_run_dir(recipe, run_dir, run.resume)
    check_files(Path(recipe.model))
    for line in device_warnings(run.suite):
        say(line, stderr=True)
    print_recipe(recipe, f"mobilerl train --run-dir {shlex.quote(str(run_dir))}")
    say(estimate(run), stderr=True)
    if hardware_needed := hardware(recipe):
        say(hardware_needed, stderr=True)
    space = disk(recipe, run_dir)
    say(f"disk: {'' if space.ok else 'NOT ENOUGH: '}{space}", stderr=True)
    return 0


# --- checks ------------------------------------------------------------------------------------------------------


def check(run: Run) -> None:
    """Checks everything that can be checked before a run directory is claimed. Raises ConfigError or ValueError."""
    recipe, run_dir = run.recipe, run.run_dir
    check_writable(run_dir)
    check_devices(recipe)
    check_screenshots(recipe.model, recipe.agent)
    engine_kind(recipe.engine).check()
    _check_offline(recipe, run_dir)
    if recipe.algorithm.curriculum.history and latest(run_dir) is None:
        read_history(Path(recipe.algorithm.curriculum.history))
    run.suite.check()
    check_mirrors(recipe.tracking)
    if recipe.rollout.scorer:
        own_scorer(recipe.rollout.scorer)


def check_writable(run_dir: Path) -> None:
    """Raises ConfigError when the run directory cannot be made or written to."""
    place = run_dir
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise ConfigError(f"--run-dir {run_dir}: {place} is a file; choose another --run-dir")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"--run-dir {run_dir}: no permission to write in {place}; choose another --run-dir")


def _check_offline(recipe: Recipe, run_dir: Path) -> None:
    """Checks the stored trajectories, which are needed only until the run has a checkpoint."""
    stored = recipe.algorithm.stored_trajectories
    if not stored or latest(run_dir) is not None:
        return
    vocabulary = vocabulary_size(Path(recipe.model)) if recipe.model else None
    try:
        check_offline_trajectories(Path(stored), vocabulary)
    except ValueError as error:
        raise ConfigError(f"algorithm.offline.trajectories: {error}") from None


def print_recipe(recipe: Recipe, command: str) -> None:
    print(f"# the resolved recipe of: {command}")
    print(to_toml(recipe), end="")
    say("the run was not started; `mobilerl doctor` with the same recipe checks this machine", stderr=True)
