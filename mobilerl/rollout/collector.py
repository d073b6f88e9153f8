"""Asynchronous collection of groups of episodes on a set of devices.

A device gets its next episode as soon as it is ready; there is no batch barrier. Invariants: every dispatched episode
ends exactly once, as a trajectory or as a failure after its retries; an infrastructure error is retried on another
device and never becomes a reward; every await has a deadline.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mobilerl.envs.base import (
    DeviceEvent,
    DeviceReport,
    Devices,
    FreeReward,
    InfraError,
    MobileEnv,
    Task,
    TaskFault,
    draw_screenshots,
)
from mobilerl.envs.pool import FixedDevices
from mobilerl.judge.scorer import NoVerdict, Scorer
from mobilerl.policy.actor import Actor
from mobilerl.records import Cause, Group, LostGroup, Status, Trajectory
from mobilerl.rollout.episode import EpisodeSettings, Rollout, do_rollout
from mobilerl.rollout.reward import compute_reward

log = logging.getLogger(__name__)
JUDGE_METRICS = {
    "requests": "judge/requests",
    "prompt_tokens": "judge/prompt_tokens",
    "completion_tokens": "judge/completion_tokens",
}
"""Costs of a judge and the names under which the scorer's metrics report them."""

RETRIES = 3
"""Number of times that an episode is repeated after device failures."""


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """Settings of a collector. `min_group` is the minimum fraction of its episodes that a usable group completed."""

    group_size: int = 8
    max_retries: int = RETRIES
    min_group: float = 0.75
    episode: EpisodeSettings = EpisodeSettings()


@dataclass(slots=True)
class _Job:
    """One episode: slot `slot` of the group `group`."""

    task: Task
    group: str
    slot: int
    tries: int = 0
    failed_on: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        return f"{self.group}-{self.slot:02d}"


@dataclass(slots=True)
class _OpenGroup:
    task: Task
    size: int
    waiting: int
    actor: Actor
    draw: bool
    ready: asyncio.Queue[Group | None]
    trajectories: dict[int, Trajectory] = field(default_factory=dict)
    causes: set[Cause] = field(default_factory=set)
    """Causes of the group's failed episodes."""
    reason: str = ""
    """Last failure of the group's episodes."""

    @property
    def cause(self) -> Cause:
        """Why the group's episodes failed: TASK only if all failures are the task's own."""
        if Cause.FREE_REWARD in self.causes:
            return Cause.FREE_REWARD
        return Cause.TASK if self.causes == {Cause.TASK} else Cause.DEVICE


class Collector:
    """Collects groups on `devices` with `actor`. Use it as an async context manager, or call `start` and `close`.

    With a `scorer` (a judge), rewards come from it instead of the tasks' own checks; one that has `solved` also ends
    episodes.
    `counts` holds dispatched, finished, infra_errors, retried, failed (after all retries) and lost_groups. Counts and
    `busy_s` never decrease.
    """

    def __init__(
        self,
        devices: Devices | Sequence[MobileEnv],
        actor: Actor,
        settings: CollectorSettings,
        changed: Callable[[], None] = lambda: None,
        scorer: Scorer | None = None,
        greedy: Actor | None = None,
        sampling_s: Callable[[], float] | None = None,
    ) -> None:
        self.pool: Devices = FixedDevices(devices) if isinstance(devices, Sequence) else devices
        self.pool.on_change(self._pump)
        self.actor, self.settings = actor, settings
        self.greedy = greedy or actor
        """Actor of the episodes of `evaluate`."""
        self.sampling_s = sampling_s
        """Seconds in which the policy has sampled so far, if it counts them."""
        self.counts: Counter[str] = Counter()
        self._busy_s = 0.0
        self._began: dict[str, float] = {}
        """Start times of the running episodes by id."""
        self.last_fault = ""
        """Reason of the last failed episode."""
        self.lost: list[LostGroup] = []
        """Lost groups in the order in which they ended, until they are taken (`take_lost`)."""
        self._unevaluated: set[str] = set()
        """Tasks of which a lost episode of `evaluate` was reported."""
        self._changed, self._scorer = changed, scorer
        self._scoring: set[asyncio.Task[Trajectory]] = set()
        self._jobs: list[_Job] = []
        self._playing: set[asyncio.Task[Rollout]] = set()
        self._open: dict[str, _OpenGroup] = {}
        self._ready: asyncio.Queue[Group | None] = asyncio.Queue()
        self._waiting = {self._ready}
        """Queues that a caller may be waiting for."""
        self._failure: Exception | None = RuntimeError("the collector has not been started")

    # --- life cycle ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        # A remote device blocks a thread, and asyncio's default executor has only a few more threads than cores.
        threads = ThreadPoolExecutor(2 * self.devices + 8, "device")
        asyncio.get_running_loop().set_default_executor(threads)
        await self.pool.start()
        self._failure = None
        self._pump()

    async def close(self) -> None:
        """Stops immediately and drops running episodes."""
        self._fail(RuntimeError("the collector was closed while groups were being collected"))
        playing = [*self._playing, *self._scoring]
        for episode in playing:
            episode.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        await self.pool.close()
        if self._scorer is not None:
            await self._scorer.close()

    async def __aenter__(self) -> Collector:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def status(self) -> dict[str, float]:
        """The pool's devices by state, its counts and the judge's metrics, for metrics.jsonl."""
        judge = self._scorer.metrics() if self._scorer is not None else {}
        return {f"fleet/{name}": value for name, value in self.pool.status().items()} | dict(judge)

    def report(self) -> list[DeviceReport]:
        return self.pool.report()

    def on_event(self, happened: Callable[[DeviceEvent], None]) -> None:
        """Calls `happened` from now on with what happens to devices."""
        self.pool.on_event(happened)

    def take_lost(self) -> list[LostGroup]:
        """Removes the lost groups and returns them."""
        taken, self.lost = self.lost, []
        return taken

    def count_judge_usage(self) -> Mapping[str, float]:
        """Cumulative requests and tokens of the judge; {} without one."""
        if self._scorer is None:
            return {}
        said = self._scorer.metrics()
        return {name: said.get(key, 0) for name, key in JUDGE_METRICS.items()}

    # --- dispatching -----------------------------------------------------------------------------------------

    @property
    def devices(self) -> int:
        return self.pool.capacity

    @property
    def held(self) -> int:
        """Number of devices in the fleet, spares included."""
        return len(self.pool.report())

    @property
    def ended(self) -> int:
        """Number of episodes that have ended so far, without those that are repeated."""
        return self.counts["finished"] + self.counts["failed"]

    @property
    def unfinished(self) -> int:
        """Number of dispatched episodes that have not ended."""
        return sum(group.waiting for group in self._open.values())

    @property
    def playing(self) -> int:
        """Number of running episodes, which is how many can query the policy at once."""
        return len(self._playing)

    async def dispatch(self, task: Task, group_id: str, size: int | None = None, draw: bool = True) -> None:
        """Queues the episodes of one group. `group_id` must be new. Without `draw` no one reads their screenshots."""
        self._dispatch(task, group_id, size or self.settings.group_size, self.actor, draw, self._ready)

    def _dispatch(
        self, task: Task, group_id: str, size: int, actor: Actor, draw: bool, ready: asyncio.Queue[Group | None]
    ) -> None:
        if group_id in self._open:
            raise ValueError(f"group {group_id} is already being collected")
        self._open[group_id] = _OpenGroup(task, size, size, actor, draw, ready)
        self.counts["dispatched"] += size
        self._jobs.extend(_Job(task, group_id, slot) for slot in range(size))
        self._pump()

    async def collect(
        self, tasks: Sequence[Task], prefix: str, size: int | None = None, draw: bool = True
    ) -> list[Group]:
        """Collects one group per task, in the order of `tasks`; lost groups are left out. `draw` as in `dispatch`."""
        ids = [f"{prefix}-{i:03d}" for i in range(len(tasks))]
        for task, group_id in zip(tasks, ids, strict=True):
            await self.dispatch(task, group_id, size, draw)
        groups = [g async for g in self.ready(len(tasks))]
        order = {group_id: i for i, group_id in enumerate(ids)}
        return sorted(groups, key=lambda g: order[g.trajectories[0].id.rsplit("-", 1)[0]])

    async def evaluate(self, tasks: Sequence[Task], prefix: str, draw: bool = True) -> list[Group]:
        """Plays one greedy episode per task while other episodes go on. Lost ones are left out, and not in `lost`,
        but logged once per task. `draw` as in `dispatch`."""
        ready: asyncio.Queue[Group | None] = asyncio.Queue()
        self._waiting.add(ready)
        for i, task in enumerate(tasks):
            self._dispatch(task, f"{prefix}-{i:03d}", 1, self.greedy, draw, ready)
        groups = [await self._next_ready(ready) for _ in tasks]
        self._waiting.discard(ready)
        return [group for group in groups if group is not None]

    async def ready(self, n: int) -> AsyncIterator[Group]:
        """Yields the next `n` groups in the order in which they end; lost groups count but are not yielded."""
        for _ in range(n):
            group = await self._next_ready(self._ready)
            if group is not None:
                yield group

    async def _next_ready(self, ready: asyncio.Queue[Group | None]) -> Group | None:
        """Waits for a group. Raises the error that ended the collection instead of waiting forever."""
        if self._failure is None or not ready.empty():
            group = await ready.get()
            if group is not None or self._failure is None:
                return group
        assert self._failure is not None
        raise self._failure

    @property
    def busy_s(self) -> float:
        """Device-seconds spent in episodes, including running ones."""
        now = time.monotonic()
        return self._busy_s + sum(now - began for began in self._began.values())

    # --- episodes --------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Starts an episode on every ready device. `playing` changes only here and in `_finish_episode`."""
        if self.pool.failure is not None:
            self._fail(self.pool.failure)
        if self._failure is None:
            for job in list(self._jobs):
                env = self.pool.take(job.failed_on)
                if env is not None:
                    self._jobs.remove(job)
                    episode = asyncio.get_running_loop().create_task(self._run_job(env, job))
                    self._playing.add(episode)
                    episode.add_done_callback(partial(self._finish_episode, env=env, job=job))
                elif not job.failed_on:
                    break  # no device is ready
        self._changed()

    async def _run_job(self, env: MobileEnv, job: _Job) -> Rollout:
        self._began[job.id] = time.monotonic()
        try:
            group, scorer = self._open[job.group], self._scorer
            draw_screenshots(env, group.draw)
            solved = getattr(scorer, "solved", None)
            return await do_rollout(
                env, group.actor, job.task, job.id, self.settings.episode, scored=scorer is None, solved=solved
            )
        finally:
            self._busy_s += time.monotonic() - self._began.pop(job.id)

    def _finish_episode(self, episode: asyncio.Task[Rollout], env: MobileEnv, job: _Job) -> None:
        """Files or scores an episode that has ended and returns its device, without yielding in between."""
        self._playing.discard(episode)
        if self._died(episode):
            return
        rollout = episode.result()
        if self._scorer is None or rollout.solved or rollout.trajectory.status is Status.INFRA_ERROR:
            self._file(job, rollout.trajectory, rollout.fault, elsewhere=not isinstance(rollout.fault, NoVerdict))
        else:
            # Scoring needs no device, and the policy must not wait for this episode's next request.
            scoring = asyncio.get_running_loop().create_task(self._score(self._scorer, rollout))
            self._scoring.add(scoring)
            scoring.add_done_callback(lambda done: self._finish_scoring(done, job))
        self.pool.give_back(env, rollout.trajectory.error if rollout.fault is None else "")
        self._pump()

    async def _score(self, scorer: Scorer, rollout: Rollout) -> Trajectory:
        try:
            return replace(rollout.trajectory, reward=await compute_reward(scorer, rollout.trajectory, rollout.final))
        except InfraError as fault:
            return replace(rollout.trajectory, status=Status.INFRA_ERROR, error=str(fault))

    def _finish_scoring(self, scoring: asyncio.Task[Trajectory], job: _Job) -> None:
        self._scoring.discard(scoring)
        if not self._died(scoring):
            self._file(job, scoring.result(), elsewhere=False)
            self._pump()

    def _died(self, task: asyncio.Task[Any]) -> bool:
        """Whether a task ended without a result. Its exception is raised to the callers that wait for groups."""
        if task.cancelled():
            return True
        if (error := task.exception()) is not None:
            self._fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))
        return error is not None

    def _fail(self, error: Exception) -> None:
        """Ends the collection; callers that wait for a group get the error."""
        if self._failure is None:
            self._failure = error
            for ready in self._waiting:
                ready.put_nowait(None)

    def _file(
        self, job: _Job, trajectory: Trajectory, fault: TaskFault | NoVerdict | None = None, elsewhere: bool = True
    ) -> None:
        """Adds a trajectory to its group, or puts a failed episode back into the queue.

        `fault` is as in `Rollout`. With `elsewhere`, the retry uses another device.
        """
        group = self._open[job.group]
        if trajectory.status is Status.INFRA_ERROR:
            self.counts["infra_errors"] += 1
            self.last_fault = trajectory.error
            job.tries += 1
            if elsewhere:
                job.failed_on.add(trajectory.device_id)
            if job.tries <= self.settings.max_retries and not isinstance(fault, FreeReward):
                self.counts["retried"] += 1
                self._jobs.insert(0, job)
                return
            self._give_up(job, trajectory.error, fault)
        else:
            self.counts["finished"] += 1
            group.trajectories[job.slot] = trajectory
        group.waiting -= 1
        if group.waiting == 0:
            self._close_group(job.group)

    def _give_up(self, job: _Job, reason: str, fault: TaskFault | NoVerdict | None) -> None:
        """Ends an episode as failed; for a free reward also the episodes of its group that have not begun."""
        group = self._open[job.group]
        self.counts["failed"] += 1
        group.reason = reason
        if isinstance(fault, FreeReward):
            group.causes.add(Cause.FREE_REWARD)
            dropped = [other for other in self._jobs if other.group == job.group]
            self._jobs = [other for other in self._jobs if other.group != job.group]
            self.counts["failed"] += len(dropped)
            group.waiting -= len(dropped)
        else:
            group.causes.add(Cause.TASK if isinstance(fault, TaskFault) else Cause.DEVICE)

    def _close_group(self, group_id: str) -> None:
        group = self._open.pop(group_id)
        kept = tuple(group.trajectories[slot] for slot in sorted(group.trajectories))
        enough = kept and len(kept) >= math.ceil(self.settings.min_group * group.size)
        if enough and group.cause is not Cause.FREE_REWARD:
            group.ready.put_nowait(Group(group.task, kept))
            return
        if group.ready is self._ready:
            self.counts["lost_groups"] += 1
            self.lost.append(LostGroup(group.task, group.cause, group.reason))
        elif group.task.id not in self._unevaluated:
            self._unevaluated.add(group.task.id)
            log.warning("held-out task %s was left out of an evaluation: %s", group.task.id, group.reason)
        group.ready.put_nowait(None)
