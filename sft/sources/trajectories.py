"""Our own runs: the successful trajectories in a run directory (docs/files.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mobilerl.envs.base import Invalid, Task
from mobilerl.policy.sanitize import encodable
from mobilerl.records import SUCCESS, Status, Step
from mobilerl.records.files import read_records, trajectory_files, trajectory_from_dict
from mobilerl.records.screens import ScreenFolder
from mobilerl.sft.sources.convert import Wanted, attempt, check_size, checked_png, up_to_fault
from mobilerl.sft.sources.report import Counts, Reject
from mobilerl.sft.sources.schema import Demonstration, RecordedStep
from mobilerl.suites.base import is_held_out

NAME = "trajectories"
UNSUCCESSFUL = "not successful"

files = trajectory_files


def read(file: Path, wanted: Wanted, counts: Counts) -> Iterator[Demonstration]:
    try:
        for _, record in read_records(file):
            demo = attempt(counts, _episode, record, file.parent.parent / "screens", wanted)
            if demo is not None:
                yield demo
    except (ValueError, OSError) as fault:  # the lines after an invalid one are not trusted
        counts.faults.append(str(fault))


def _episode(record: Mapping[str, Any], screens: Path, wanted: Wanted) -> Demonstration | None:
    if not isinstance(reward := record.get("reward"), int | float) or not reward > SUCCESS:
        raise Reject(UNSUCCESSFUL)
    try:  # a shared ScreenFolder would keep every screen of the file in memory
        trajectory = trajectory_from_dict(record, ScreenFolder(screens))
    except (ValueError, OSError):
        raise Reject("trajectory is damaged, or one of its screens is missing or damaged") from None
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
    """The split defined by the task's suite; "" if it defines none."""
    try:
        held_out = is_held_out(task)
    except ValueError:
        raise Reject("task of an unknown template") from None
    return "" if held_out is None else "test" if held_out else "train"


def _step(step: Step) -> RecordedStep:
    seen = step.observation
    reject = ""
    if isinstance(step.action, Invalid):
        reject = "the policy's response could not be parsed"
    elif step.note:
        reject = "the phone did not carry out the action"
    check_size(seen.width, seen.height)
    return RecordedStep(
        screenshot=checked_png(seen.screenshot, seen.width, seen.height) if seen.screenshot else b"",
        width=seen.width,
        height=seen.height,
        action=step.action,
        xml=seen.xml,
        listed=bool(seen.xml),
        app=seen.app,
        thought=step.thought,
        response=step.completion.text,
        note=step.note,
        reject=reject,
    )
