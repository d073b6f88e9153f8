"""Our own runs: the successful trajectories of a run directory (docs/files.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from envs.base import Invalid, Task
from mobilerl.agent.defuse import encodable
from mobilerl.held_out import is_held_out
from mobilerl.records import Status, Step
from mobilerl.screen_files import ScreenFolder
from mobilerl.trajectory_files import read_records, trajectory_from_dict
from sft.sources.convert import Wanted, attempt, up_to_fault
from sft.sources.pictures import check_size, checked_png
from sft.sources.report import Counts, Reject
from sft.sources.schema import Demonstration, RecordedStep

NAME = "trajectories"
SUCCESS = 0.5
UNSUCCESSFUL = "not successful"


def files(path: Path) -> list[Path]:
    found = sorted(path.glob("trajectories/iter-*.jsonl"))
    if not found:
        raise ValueError(f"{NAME}: no trajectories/iter-*.jsonl in {path}; give the directory of a run")
    return found


def check(file: Path) -> None:
    try:
        next(read_records(file), None)
    except (ValueError, OSError) as fault:
        raise ValueError(f"{NAME}: {fault}") from None


def read(file: Path, wanted: Wanted, counts: Counts) -> Iterator[Demonstration]:
    try:
        for _, record in read_records(file):
            demo = attempt(counts, _episode, record, file.parent.parent / "screens", wanted)
            if demo is not None:
                yield demo
    except (ValueError, OSError) as fault:  # a line that is no trajectory: what follows cannot be trusted
        counts.file_fault(fault)
    else:
        counts.files += 1


def _episode(record: Mapping[str, Any], screens: Path, wanted: Wanted) -> Demonstration | None:
    if not isinstance(reward := record.get("reward"), int | float) or not reward > SUCCESS:
        raise Reject(UNSUCCESSFUL)
    try:  # a store of its own: one for the whole file would keep every screen of it in memory
        trajectory = trajectory_from_dict(record, ScreenFolder(screens))
    except (ValueError, OSError):
        raise Reject("trajectory is damaged, or a screen of it is missing or damaged") from None
    if trajectory.status is Status.INFRA_ERROR:
        raise Reject("the device failed")
    if not trajectory.task.instruction.strip():
        raise Reject("goal is empty")
    if encodable(trajectory.task.id) != trajectory.task.id:
        raise Reject("task id is not UTF-8")
    if not wanted(trajectory.task.id, task_split(trajectory.task)):
        return None
    steps, fault, lost = up_to_fault(partial(_step, step) for step in trajectory.steps)
    return Demonstration(trajectory.task, steps, fault, lost)


def task_split(task: Task) -> str:
    """The split that a task's suite defines; "" for suites that reserve nothing."""
    try:
        held_out = is_held_out(task)
    except ValueError:
        raise Reject("task of an unknown template") from None
    return "" if held_out is None else "test" if held_out else "train"


def _step(step: Step) -> RecordedStep:
    seen = step.observation
    reject = ""
    if isinstance(step.action, Invalid):
        reject = "the policy's reply was not understood"
    elif step.note:
        reject = "the phone did not carry the action out"
    check_size(seen.width, seen.height)
    png = checked_png(seen.screenshot, seen.width, seen.height) if seen.screenshot else b""
    return RecordedStep(
        png, seen.width, seen.height, step.action, seen.xml, bool(seen.xml), seen.app, "",
        step.thought, step.completion.text, step.note, reject,
    )  # fmt: skip
