"""From the trace of an episode to what AndroidLab says of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envs.androidlab.judge import Ask, JudgeFault, Judges, Outcome
from envs.androidlab.tasks import LabTask
from envs.androidlab.trace import read_trace
from envs.base import Task
from mobilerl.eval.androidlab.metrics import count_unchanged
from mobilerl.eval.androidlab.store import Record
from mobilerl.records import Trajectory


@dataclass(frozen=True, slots=True)
class Grade:
    """`outcome` is None when there is none; `fault` then says why."""

    outcome: Outcome | None
    unchanged: int = 0
    fault: str = ""


class Grader:
    """Judges traces, and keeps the grades by task id. A judge that fails is no reason to play an episode again."""

    def __init__(self, judges: Judges, tasks: Sequence[LabTask], ask: Ask) -> None:
        self.grades: dict[str, Grade] = {}
        self._judges, self._ask = judges, ask
        self._tasks: Mapping[str, LabTask] = {task.id: task for task in tasks}

    async def score(self, task: Task, folder: Path) -> float:
        """For `AndroidLabEnv`: 0.0 when there is no outcome, which `grades` tells apart from a failure."""
        grade = await self.grade(task.id, folder)
        return float(grade.outcome is not None and grade.outcome.complete)

    async def grade(self, task_id: str, folder: Path) -> Grade:
        try:
            lines = read_trace(folder)
            outcome = await self._judges.judge(self._tasks[task_id], folder, lines, self._ask)
            screens = [folder / line["image"] for line in lines if line["index"] in outcome.steps]
            grade = Grade(outcome, await asyncio.to_thread(_unchanged, screens))
        except JudgeFault as fault:
            grade = Grade(None, fault=str(fault))
        self.grades[task_id] = grade
        return grade


def _unchanged(screens: Sequence[Path]) -> int:
    return count_unchanged(path.read_bytes() for path in screens)


def record_of(trajectory: Trajectory, grade: Grade) -> Record:
    record = Record(
        task_id=trajectory.task.id, status=str(trajectory.status), steps=len(trajectory.steps),
        wall_s=round(trajectory.wall_s, 3), device=trajectory.device_id,
        replies=tuple(step.completion.text for step in trajectory.steps),
    )  # fmt: skip
    return graded(record, grade)


def graded(record: Record, grade: Grade) -> Record:
    """The record with what a grade says in place of what an earlier one said."""
    if grade.outcome is None:
        return replace(record, fault=grade.fault)
    found = grade.outcome
    return replace(
        record, fault="", complete=found.complete, sub_goals=dict(found.sub_goals), judged_steps=len(found.steps),
        unchanged=grade.unchanged, judge_errors=found.errors,
    )  # fmt: skip
