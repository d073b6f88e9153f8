"""Runs the episodes of an evaluation, for every suite."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from mobilerl.envs.base import Action, Devices, InfraError, MobileEnv, Observation, StepResult, Task
from mobilerl.eval.journal import Key, key_of
from mobilerl.eval.policies import EvalPolicy
from mobilerl.judge.scorer import Scorer
from mobilerl.records import Group, LostGroup
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings
from mobilerl.system.terminal import progress_bar, say

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
    scorer: Scorer | None = None,
    done: Callable[[Task], bool] = lambda task: False,
) -> list[LostGroup]:
    """Plays `trials` episodes of each task that is not `done`, one group per task with an id that begins with `prefix`.

    `ended` is called with each group as soon as it ends, without episodes that failed in all attempts. Returns the
    groups without any episode. Shows the progress.
    """
    settings = CollectorSettings(group_size=trials, max_retries=retries, min_group=0.0, episode=episode)
    collector = Collector(devices, policy.actor, settings, policy.check_batch, scorer)
    # A task keeps its number when the evaluation is resumed.
    left = {f"{prefix}-{number:03d}": task for number, task in enumerate(tasks) if not done(task)}
    count = len(tasks) - len(left)
    collector.on_event(lambda event: say(str(event), stderr=True))
    with progress_bar("tasks evaluated", count) as show:
        show(count, len(tasks))
        async with collector:
            policy.connect(collector)
            for name, task in left.items():
                await collector.dispatch(task, name)
            async for group in collector.ready(len(left)):
                ended(group)
                count += 1
                show(count + len(collector.lost), len(tasks))
    return collector.lost


class WatchedEnv:
    """A `MobileEnv` that records the last fault of each episode, which the collector does not keep."""

    def __init__(self, env: MobileEnv, faults: dict[Key, InfraError]) -> None:
        self._env, self._faults = env, faults
        self._key: Key = ("", 0)

    def __getattr__(self, name: str) -> Any:
        """Delegates everything else, such as the device's id and health."""
        return getattr(self._env, name)

    async def reset(self, task: Task) -> Observation:
        self._key = key_of(task)
        return await self._record_fault(self._env.reset(task))

    async def step(self, action: Action) -> StepResult:
        return await self._record_fault(self._env.step(action))

    async def score(self) -> float:
        return await self._record_fault(self._env.score())

    async def _record_fault(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except InfraError as fault:
            self._faults[self._key] = fault
            raise
