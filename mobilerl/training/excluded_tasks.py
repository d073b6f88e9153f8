"""Exclusion of tasks whose groups are repeatedly lost, for the rest of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mobilerl.algorithms.checks import count
from mobilerl.envs.base import InfraError
from mobilerl.records import Cause, Group, LostGroup

MOST_NAMED = 5
"""Maximum number of tasks that an error lists with their reasons."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """Why a task is excluded."""

    reason: str
    free_reward: bool = False


class ExcludedTasks:
    """Excludes a task after `limit` consecutive lost groups (0: never), and immediately if its reward is free.

    A group lost through the task's own fault counts immediately. Groups lost to devices count, as one, only once a
    group of another task completes: as long as none does, the devices are broken, and one outage counts at most once
    per task.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.set_aside: dict[str, SetAside] = {}
        """Excluded tasks by id, in the order of exclusion."""
        self._lost: Counter[str] = Counter()
        self._unsure: dict[str, str] = {}
        """Reasons, by task id, of groups lost to devices that do not count yet."""

    def record_outcomes(self, groups: Iterable[Group], lost: Iterable[LostGroup]) -> list[str]:
        """Records the complete and the lost groups of one rollout. Returns the ids of newly excluded tasks."""
        before = len(self.set_aside)
        completed = {group.task.id for group in groups}
        for task in completed:
            self._forget(task)
        for group in lost:
            self._lose(group, group.task.id in completed)
        if completed:
            unsure, self._unsure = self._unsure, {}
            for task, reason in unsure.items():
                self._count(task, reason)
        for task in self.set_aside:
            self._forget(task)
        return list(self.set_aside)[before:]

    def _lose(self, group: LostGroup, completed: bool) -> None:
        """Records one lost group; `completed` says whether another group of its task was completed."""
        task = group.task.id
        if task in self.set_aside:
            return  # this group was still running
        if group.cause is Cause.FREE_REWARD:
            self.set_aside[task] = SetAside(group.reason, free_reward=True)
        elif completed:
            return
        elif group.cause is Cause.TASK:
            self._count(task, group.reason)
        else:
            self._unsure[task] = group.reason

    def _count(self, task: str, reason: str) -> None:
        self._lost[task] += 1
        if self._lost[task] == self.limit:
            self.set_aside[task] = SetAside(reason)

    def _forget(self, task: str) -> None:
        self._lost.pop(task, None)
        self._unsure.pop(task, None)

    def metrics(self) -> dict[str, int]:
        return {
            "rollout/tasks_set_aside": len(self.set_aside),
            "rollout/free_reward_tasks": sum(why.free_reward for why in self.set_aside.values()),
        }

    def all_set_aside(self) -> InfraError:
        """The error to raise when no task is left."""
        named = "; ".join(f"{task}: {why.reason}" for task, why in list(self.set_aside.items())[:MOST_NAMED])
        more = f"; and {len(self.set_aside) - MOST_NAMED} more" if len(self.set_aside) > MOST_NAMED else ""
        return InfraError(f"every task of the run was excluded: {named}{more}")

    def state_dict(self) -> dict[str, Any]:
        aside = {task: asdict(why) for task, why in self.set_aside.items()}
        return {"set_aside": aside, "lost": dict(self._lost), "unsure": dict(self._unsure)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.set_aside = {task: SetAside(**why) for task, why in state["set_aside"].items()}
        self._lost = Counter({task: count(f"losses of {task}", n) for task, n in state["lost"].items()})
        self._unsure = dict(state["unsure"])
