"""Which tasks are reserved for testing: those that evaluations report, and that nothing may learn from."""

from __future__ import annotations

from envs.androidworld import tasks as androidworld
from envs.base import Task
from envs.phone.tasks import suite


def is_held_out(task: Task) -> bool | None:
    """None for a suite that reserves nothing. Raises ValueError for a template that the task's suite does not have."""
    if task.suite == androidworld.SUITE:
        return task.seed in androidworld.EVAL_SEEDS
    if task.suite != suite.SUITE:
        return None
    if task.template not in suite.TEMPLATES:
        raise ValueError(f"{task.id} is of an unknown template")
    reserved = suite.template(task.template).split == "test" or suite.held_out(task.template, dict(task.params))
    return reserved or task.seed >= suite.HELD_OUT_SEEDS
