"""`--dry-run`: checks that a recipe can run and prints it with everything resolved.

The resolved recipe goes to standard output and can be saved and used; the rest goes to standard error.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.toml import null_flags, to_toml
from mobilerl.fleet import check_packages, spare_devices
from mobilerl.setup import check_checkpoint
from mobilerl.train.checkpoint import latest
from mobilerl.train.checkpoint_files import check_files, vocabulary_size
from mobilerl.train.stored import check_stored

SERIAL = re.compile(r"[\w.\-]+(:\d{1,5})?|\[[0-9a-fA-F:]+\]:\d{1,5}")


def dry_run(recipe: Recipe, run_dir: Path, resume: bool) -> int:
    """`mobilerl train --dry-run`. Raises ConfigError for what would stop the run at its start; starts nothing."""
    check(recipe, run_dir)
    recipe = _resolved(recipe, run_dir, resume)
    check_files(Path(recipe.model))
    _print(recipe, f"mobilerl train --run-dir {shlex.quote(str(run_dir))}")
    return 0


def dry_run_sft(recipe: Recipe, run_dir: Path, stages: Collection[int] = (1, 2)) -> int:
    """`mobilerl sft --dry-run`, for both stages or one of them."""
    from sft.placement import check, check_stages

    check_writable(run_dir)
    if recipe.model:
        check_checkpoint(recipe.model)
        check_files(Path(recipe.model))
    check(recipe)
    check_stages(recipe, run_dir, stages)
    only = "" if len(stages) > 1 else f" --stage {min(stages)}"
    _print(recipe, f"mobilerl sft --run-dir {shlex.quote(str(run_dir))}{only}")
    return 0


# --- checks ------------------------------------------------------------------------------------------------------


def check(recipe: Recipe, run_dir: Path) -> None:
    """What can be known to be wrong before a run directory is claimed. Raises ConfigError or ValueError."""
    check_writable(run_dir)
    check_devices(recipe)
    _check_engine(recipe)
    _check_offline(recipe, run_dir)
    check_tasks(recipe)


def check_writable(run_dir: Path) -> None:
    """Raises ConfigError when the run directory cannot be made or written to."""
    place = run_dir
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise ConfigError(f"--run-dir {run_dir}: {place} is a file; choose another --run-dir")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"--run-dir {run_dir}: no permission to write in {place}; choose another --run-dir")


def _resolved(recipe: Recipe, run_dir: Path, resume: bool) -> Recipe:
    """As the run would find it: with the agent settings of its checkpoint, and checked against a run that is there."""
    from mobilerl.train.run_dir import CONFIG_FILE, open_run

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / run_dir.name
        if (run_dir / CONFIG_FILE).is_file():
            copy.mkdir()
            shutil.copy(run_dir / CONFIG_FILE, copy)
        try:
            return open_run(recipe, copy, resume)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(copy), str(run_dir))) from None


def check_devices(recipe: Recipe) -> None:
    """Raises ConfigError for devices that cannot be used, as far as that can be seen without asking for them."""
    fleet = recipe.fleet
    check_packages(fleet)
    for serial in fleet.serials:
        if not SERIAL.fullmatch(serial):
            raise ConfigError(
                f"fleet.serials: {serial!r} is no serial; give it as `adb devices` prints it, or HOST:PORT"
            )
    if len(set(fleet.serials)) < len(fleet.serials):
        raise ConfigError("fleet.serials names a device twice: each can play one episode at a time")
    spare_devices(recipe)  # raises where there are fewer serials than devices
    for given in fleet.environment:
        if "=" not in given and given not in os.environ:
            raise ConfigError(f"fleet.environment: {given} is not set here; write {given}=VALUE, or export it")


def _check_engine(recipe: Recipe) -> None:
    if recipe.engine.type == "verl":
        from mobilerl.engines.verl.packages import check_packages

        check_packages()
    elif recipe.engine.sampler == "vllm":
        from mobilerl.engines.vllm.installed import check_installed

        check_installed()
    elif find_spec("torch") is None:
        raise ConfigError("torch is not installed: pip install torch==2.13.0, then pip install 'mobilerl[local]'")


def _check_offline(recipe: Recipe, run_dir: Path) -> None:
    """Of a run that has a checkpoint they are not needed any more."""
    if not recipe.offline.trajectories or latest(run_dir) is not None:
        return
    vocabulary = vocabulary_size(Path(recipe.model)) if recipe.model else None
    try:
        check_stored(Path(recipe.offline.trajectories), vocabulary)
    except ValueError as error:
        raise ConfigError(f"offline.trajectories: {error}") from None


def check_tasks(recipe: Recipe) -> None:
    """Raises ConfigError or ValueError for training tasks that do not exist, or that are held out for testing."""
    if recipe.phone.suite == "sim":
        from mobilerl.train.tasks import training_tasks

        training_tasks(recipe.tasks)
    else:
        from envs.androidworld.tasks import trainable

        trainable(recipe.tasks.templates, recipe.plays_free_rewards)


# --- what is printed ---------------------------------------------------------------------------------------------


def _print(recipe: Recipe, command: str) -> None:
    flags = null_flags(recipe)
    print(f"# the resolved recipe of: {command}")
    if flags:
        print(f"# TOML cannot say null; to use this file, give as well: {shlex.join(flags)}")
    print(to_toml(recipe), end="")
    print("the run would start with this recipe; nothing was started. `mobilerl doctor` with the same recipe checks "
          "this machine", file=sys.stderr)  # fmt: skip
