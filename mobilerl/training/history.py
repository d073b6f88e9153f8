"""The failure history of an earlier run, from which a curriculum can start (`algorithm.curriculum.history`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mobilerl.config import ConfigError
from mobilerl.models.checkpoint_folder import latest
from mobilerl.system.terminal import say
from mobilerl.training.checkpoint import CheckpointError, read_state_file
from mobilerl.training.tasks import TaskSampler

SETTING = "algorithm.curriculum.history"


def read_history(run_dir: Path) -> dict[str, Any]:
    """State of the failure curriculum in a run's newest checkpoint. Raises ConfigError without one."""
    if (folder := latest(run_dir)) is None:
        raise ConfigError(
            f"{SETTING}: {run_dir} has no checkpoint; name the run directory of an earlier `mobilerl train`"
        )
    try:
        history = read_state_file(folder)["sampler"]["curriculum"]
        tasks = history["tasks"]
    except CheckpointError as error:
        raise ConfigError(f"{SETTING}: {error}") from None
    except (KeyError, TypeError):
        tasks = None
    if not isinstance(tasks, dict):
        raise ConfigError(f"{SETTING}: {folder} has no history of failures: its run had another curriculum")
    return history


def start_from_history(sampler: TaskSampler, run_dir: Path) -> None:
    """Gives a new run the failure history of an earlier one. Raises ConfigError if it does not fit."""
    history = read_history(run_dir)
    try:
        known = sampler.start_from(history)
    except ValueError as error:
        raise ConfigError(f"{SETTING}: {run_dir}: {error}") from None
    counts = sampler.curriculum.counts()
    say(f"failure history of {run_dir}: {known} known, {counts['cooling']} cooling, {counts['removed']} removed")
