"""Trajectories that another run has written, for a run that begins by learning from them (`offline.trajectories`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from envs.base import Task
from mobilerl.held_out import is_held_out
from mobilerl.records import Status, Trajectory
from mobilerl.trajectory_files import load_trajectories, read_records


def stored_trajectories(run_dir: Path) -> list[Trajectory]:
    """All of a run, oldest first, but those a device spoiled. ValueError names what cannot be read.

    Their ids get a prefix: every run counts its iterations from 1, and ids must not meet in one buffer.
    """
    read = (t for file in stored_files(run_dir) for t in load_trajectories(file))
    return [replace(t, id=f"stored-{t.id}") for t in read if t.status is not Status.INFRA_ERROR]


def stored_files(run_dir: Path) -> list[Path]:
    """The files of trajectories that a run has written, oldest first. Raises ValueError when there are none."""
    files = sorted((run_dir / "trajectories").glob("iter-*.jsonl"))
    if not files:
        raise ValueError(f"{run_dir} holds no trajectories/iter-*.jsonl: name the directory of a run that wrote them")
    return files


def check_stored(run_dir: Path, vocabulary: int | None) -> None:
    """Whether a model with so many tokens (None: unknown) may learn from a run's trajectories. Reads no screens.

    Raises ValueError naming file, line and reason: a task that is held out for testing, tokens of another model, or
    none at all, as scripts and model servers leave them.
    """
    for path in stored_files(run_dir):
        for number, record in read_records(path):
            try:
                if record["status"] != Status.INFRA_ERROR:
                    _check(record, vocabulary)
            except KeyError as error:
                raise ValueError(f"{path}, line {number}: field {error} is missing") from None
            except (TypeError, AttributeError) as error:
                raise ValueError(f"{path}, line {number}: a field has the wrong form: {error}") from None
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None


def _check(record: Mapping[str, Any], vocabulary: int | None) -> None:
    task = Task(**record["task"])
    if is_held_out(task):
        raise ValueError(f"{task.id} is held out for testing: name a run that was trained, not an evaluation")
    for index, step in enumerate(record["steps"]):
        replied, read = step["completion"]["token_ids"], step["completion"]["prompt_ids"]
        if not replied:
            raise ValueError(f"step {index} has no tokens to learn from: it was played by a script or a model server")
        if vocabulary is not None and not 0 <= min(*replied, *read) <= max(*replied, *read) < vocabulary:
            raise ValueError(f"step {index} has tokens that the model of {vocabulary:,} does not have: "
                             "it was played by another model")  # fmt: skip
