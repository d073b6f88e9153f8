"""Offline data: trajectories of another run to learn from before the first iteration (`algorithm.offline`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mobilerl.envs.base import Task
from mobilerl.records import Status, Trajectory
from mobilerl.records.files import load_trajectories, read_records, trajectory_files
from mobilerl.suites.base import is_held_out


def load_offline_trajectories(run_dir: Path) -> list[Trajectory]:
    """Loads a run's trajectories, oldest first, except those with infra errors. Raises ValueError for a damaged file.

    Their ids get a prefix, because every run counts its iterations from 1 and ids must be unique in a buffer.
    """
    read = (t for file in trajectory_files(run_dir) for t in load_trajectories(file))
    return [replace(t, id=f"stored-{t.id}") for t in read if t.status is not Status.INFRA_ERROR]


def check_offline_trajectories(run_dir: Path, vocabulary: int | None) -> None:
    """Checks that a model with `vocabulary` tokens (None: unknown) can learn from a run's trajectories.

    Raises ValueError with file, line and reason for a held-out task, for token ids of another model, and for missing
    token ids (episodes of scripted agents and model servers). Does not read screens.
    """
    for path in trajectory_files(run_dir):
        for number, record in read_records(path):
            try:
                if record["status"] != Status.INFRA_ERROR:
                    _check(record, vocabulary)
            except KeyError as error:
                raise ValueError(f"{path}, line {number}: field {error} is missing") from None
            except (TypeError, AttributeError) as error:
                raise ValueError(f"{path}, line {number}: a field has the wrong type: {error}") from None
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None


def _check(record: Mapping[str, Any], vocabulary: int | None) -> None:
    task = Task(**record["task"])
    if is_held_out(task):
        raise ValueError(f"{task.id} is held out for testing; name a training run, not an evaluation")
    for index, step in enumerate(record["steps"]):
        replied, read = step["completion"]["token_ids"], step["completion"]["prompt_ids"]
        if not replied:
            raise ValueError(f"step {index} has no token ids: it is from a scripted agent or a model server")
        if vocabulary is not None and not 0 <= min(*replied, *read) <= max(*replied, *read) < vocabulary:
            raise ValueError(f"step {index} has token ids beyond the model's {vocabulary:,}: it is from another model")
