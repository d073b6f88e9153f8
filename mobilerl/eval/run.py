"""Runs the episodes of an evaluation, for every suite."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from envs.base import Action, Devices, InfraError, MobileEnv, Observation, StepResult, Task
from mobilerl.eval.journal import Key, key_of
from mobilerl.eval.policies import EvalPolicy
from mobilerl.records import Group
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings
from mobilerl.terminal import progress_bar

T = TypeVar("T")
Say = Callable[[str], None]


async def run_tasks(
    devices: Devices | Sequence[MobileEnv],
    policy: EvalPolicy,
    tasks: Sequence[Task],
    prefix: str,
    episode: EpisodeSettings,
    ended: Callable[[Group], None],
    trials: int = 1,
    retries: int = 3,
) -> None:
    """`trials` episodes of every task, one group each; ids of groups begin with `prefix`.

    `ended` is called with each group as soon as it ends; an episode whose every try failed on a device is left out.
    """
    settings = CollectorSettings(group_size=trials, max_retries=retries, min_group=0.0, episode=episode)
    async with Collector(devices, policy.actor, settings, policy.check_batch) as collector:
        policy.connect(collector)
        for number, task in enumerate(tasks):
            await collector.dispatch(task, f"{prefix}-{number:03d}")
        async for group in collector.ready(len(tasks)):
            ended(group)


def collect_groups(
    envs: Sequence[MobileEnv], policy: EvalPolicy, tasks: Sequence[Task], trials: int, episode: EpisodeSettings
) -> list[Group]:
    """The groups of all tasks, in their order; see `run_tasks`. A terminal shows how many are done."""
    groups: dict[str, Group] = {}
    with progress_bar("tasks evaluated", len(tasks)) as advance:

        def ended(group: Group) -> None:
            groups[group.task.id] = group
            advance(1)

        asyncio.run(run_tasks(envs, policy, tasks, "eval", episode, ended, trials))
    return [groups[task.id] for task in tasks if task.id in groups]


class WatchedEnv:
    """A `MobileEnv` that notes the last fault of each episode: the collector keeps only that an episode was lost."""

    def __init__(self, env: MobileEnv, faults: dict[Key, InfraError]) -> None:
        self._env, self._faults = env, faults
        self._key: Key = ("", 0)

    def __getattr__(self, name: str) -> Any:
        """Everything that is not an episode's: the device's id, its health, and so on."""
        return getattr(self._env, name)

    async def reset(self, task: Task) -> Observation:
        self._key = key_of(task)
        return await self._noted(self._env.reset(task))

    async def step(self, action: Action) -> StepResult:
        return await self._noted(self._env.step(action))

    async def score(self) -> float:
        return await self._noted(self._env.score())

    async def _noted(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except InfraError as fault:
            self._faults[self._key] = fault
            raise
