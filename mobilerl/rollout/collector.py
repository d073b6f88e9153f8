"""Groups of episodes over a set of devices, asynchronously by trajectory.

Every device has a worker that takes the next episode as soon as it is free: no batch barrier. Invariants: each
dispatched episode ends exactly once, as a trajectory or as a failure after its retries; an infrastructure error is
retried on another device and never becomes a reward; no await is without a deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from envs.base import InfraError, MobileEnv, Task
from mobilerl.agent.actor import Actor
from mobilerl.records import Group, Status, Trajectory
from mobilerl.rollout.episode import EpisodeSettings, run_episode

CLOSE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """`min_group` is the share of a group that must have survived for the group to be used."""

    group_size: int = 8
    max_retries: int = 3
    min_group: float = 0.75
    episode: EpisodeSettings = EpisodeSettings()


@dataclass(slots=True)
class _Job:
    """One episode to be played: slot `slot` of the group `group`."""

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
    trajectories: dict[int, Trajectory] = field(default_factory=dict)


class Collector:
    """Plays groups on `envs` with `actor`. Use as an async context manager, or call `start` and `close`.

    `counts` holds dispatched, finished, retried, failed (episodes given up), lost_groups; all only grow.
    """

    def __init__(
        self,
        envs: Sequence[MobileEnv],
        actor: Actor,
        settings: CollectorSettings,
        poke: Callable[[], None] = lambda: None,
    ) -> None:
        if not envs or len({env.device_id for env in envs}) < len(envs):
            raise ValueError("a collector needs at least one device, and devices need different device_ids")
        self.envs, self.actor, self.settings = list(envs), actor, settings
        self.counts: Counter[str] = Counter()
        self.busy_s = 0.0
        self._poke = poke
        self._jobs: list[_Job] = []
        self._idle: dict[str, MobileEnv] = {env.device_id: env for env in self.envs}
        self._open: dict[str, _OpenGroup] = {}
        self._ready: asyncio.Queue[Group | None] = asyncio.Queue()
        self._arrived = asyncio.Condition()
        self._workers: list[asyncio.Task[None]] = []

    # --- life cycle ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._workers = [asyncio.create_task(self._work(env)) for env in self.envs]

    async def close(self) -> None:
        """Stops at once; episodes that are being played are dropped."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        await asyncio.gather(*(self._close_env(env) for env in self.envs))

    async def _close_env(self, env: MobileEnv) -> None:
        """A device that fails or hangs now is not needed any more, and must not keep the others open."""
        with contextlib.suppress(InfraError, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await env.close()

    async def __aenter__(self) -> Collector:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- dispatching -----------------------------------------------------------------------------------------

    @property
    def devices(self) -> int:
        return len(self.envs)

    @property
    def unfinished(self) -> int:
        """Episodes dispatched that have not ended."""
        return sum(group.waiting for group in self._open.values())

    @property
    def playing(self) -> int:
        """Episodes that are, or are about to be, on a device: how many can ask the policy at once.

        An idle device does not count when it has failed on all that is queued: a policy that waited for it would wait
        until the deadlines of the others.
        """
        queued, taking = list(self._jobs), 0
        for env in self._idle.values():
            job = self._job_for(env, queued)
            if job is not None:
                queued.remove(job)
                taking += 1
        return len(self.envs) - len(self._idle) + taking

    async def dispatch(self, task: Task, group_id: str, size: int | None = None) -> None:
        """Queues the episodes of one group. `group_id` must be new."""
        if group_id in self._open:
            raise ValueError(f"group {group_id} is already being collected")
        size = size or self.settings.group_size
        self._open[group_id] = _OpenGroup(task, size, size)
        self.counts["dispatched"] += size
        self._jobs.extend(_Job(task, group_id, slot) for slot in range(size))
        async with self._arrived:
            self._arrived.notify_all()

    async def collect(self, tasks: Sequence[Task], prefix: str, size: int | None = None) -> list[Group]:
        """One group per task, in the order of `tasks`; groups that were lost to failing devices are left out."""
        ids = [f"{prefix}-{i:03d}" for i in range(len(tasks))]
        for task, group_id in zip(tasks, ids, strict=True):
            await self.dispatch(task, group_id, size)
        groups = [g async for g in self.ready(len(tasks))]
        order = {group_id: i for i, group_id in enumerate(ids)}
        return sorted(groups, key=lambda g: order[g.trajectories[0].id.rsplit("-", 1)[0]])

    async def ready(self, n: int) -> AsyncIterator[Group]:
        """The next `n` groups to end, in the order in which they end; lost groups count but are not yielded."""
        for _ in range(n):
            group = await self._next_ready()
            if group is not None:
                yield group

    async def _next_ready(self) -> Group | None:
        """Waits for a group, and raises what a worker died of instead of waiting for ever."""
        if not self._workers:
            raise RuntimeError("the collector has not been started")
        getter = asyncio.create_task(self._ready.get())
        try:
            done, _ = await asyncio.wait([getter, *self._workers], return_when=asyncio.FIRST_COMPLETED)
            if getter in done:
                return getter.result()
        finally:
            getter.cancel()  # or, should the caller be cancelled, it would take a group that nobody sees
        for worker in done:
            if not worker.cancelled():
                worker.result()
        raise RuntimeError("the collector was closed while groups were being collected")

    # --- playing ---------------------------------------------------------------------------------------------

    async def _work(self, env: MobileEnv) -> None:
        while True:
            job = await self._take(env)
            started = asyncio.get_running_loop().time()
            trajectory = await run_episode(env, self.actor, job.task, job.id, self.settings.episode)
            self.busy_s += asyncio.get_running_loop().time() - started
            self._idle[env.device_id] = env
            await self._ended(job, trajectory)
            self._poke()

    async def _take(self, env: MobileEnv) -> _Job:
        """Waits for a job this device may play, and leaves the queue and the idle devices in one step."""
        async with self._arrived:
            while (job := self._job_for(env, self._jobs)) is None:
                await self._arrived.wait()
            self._jobs.remove(job)
            del self._idle[env.device_id]
        self._poke()
        return job

    def _job_for(self, env: MobileEnv, jobs: Sequence[_Job]) -> _Job | None:
        """The first job this device has not failed on; one it has failed on only when no other device could."""
        for job in jobs:
            if env.device_id not in job.failed_on or len(job.failed_on) >= len(self.envs):
                return job
        return None

    async def _ended(self, job: _Job, trajectory: Trajectory) -> None:
        """Files a trajectory under its group, or sends a failed episode to another device."""
        if trajectory.status is Status.INFRA_ERROR:
            self.counts["infra_errors"] += 1
            job.tries += 1
            job.failed_on.add(trajectory.device_id)
            if job.tries <= self.settings.max_retries:
                self.counts["retried"] += 1
                self._jobs.insert(0, job)
                async with self._arrived:
                    self._arrived.notify_all()
                return
        group = self._open[job.group]
        group.waiting -= 1
        if trajectory.status is Status.INFRA_ERROR:
            self.counts["failed"] += 1
        else:
            self.counts["finished"] += 1
            group.trajectories[job.slot] = trajectory
        if group.waiting == 0:
            self._close_group(job.group)

    def _close_group(self, group_id: str) -> None:
        group = self._open.pop(group_id)
        kept = tuple(group.trajectories[slot] for slot in sorted(group.trajectories))
        if kept and len(kept) >= math.ceil(self.settings.min_group * group.size):
            self._ready.put_nowait(Group(group.task, kept))
        else:
            self.counts["lost_groups"] += 1
            self._ready.put_nowait(None)
