"""Collection in worker processes, each with phones and a copy of the policy of its own, on a core of its own.

What a worker plays is decided before it starts (which groups, which weights, which seed), so a run is repeatable bit
for bit, and a worker that dies or hangs is replaced by one that plays the same again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import multiprocessing
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

from envs.base import DeviceReport, Task
from mobilerl.config import Recipe
from mobilerl.fleet import Part, remove_orphans, spare_devices
from mobilerl.records import Group, LostGroup
from mobilerl.rollout import worker_process
from mobilerl.rollout.worker_process import Answer, Order

if TYPE_CHECKING:
    from mobilerl.engines.base import CopiedEngine

log = logging.getLogger(__name__)
CLOSE_S = 60.0
"""For a worker to give its devices back."""
START_S = 1800.0
"""For a worker to load the model and to have its first device, however busy the machine and slow the disk."""
MAX_DEATHS = 4
"""Deaths of one worker in one collection after which the run is given up."""


class WorkerError(RuntimeError):
    """A worker failed in a way that repeating does not mend. The first line says it; a traceback may follow."""


class RolloutWorkers:
    """`recipe.collect.workers` processes that collect for one learner. Use as an async context manager.

    Offers what `train.source.InTurns` and the loop need of a `Collector`: `collect`, `counts`, `lost`, `busy_s`,
    `devices`.
    What a worker counted of an order that it did not finish is lost with it.
    """

    def __init__(self, recipe: Recipe, engine: CopiedEngine, run_dir: Path | None = None) -> None:
        count = min(recipe.collect.workers, recipe.phone.count)
        self.devices = recipe.phone.count
        self.held = self.devices + spare_devices(recipe)
        """Devices of all workers, their spares included."""
        self.counts: Counter[str] = Counter()
        self.busy_s = 0.0
        self.last_fault = ""
        self.lost: list[LostGroup] = []
        """As a `Collector`'s: of the answers that were taken."""
        self._recipe, self._engine, self._seed = recipe, engine, recipe.train.seed
        self._status: Counter[str] = Counter()
        self._judged: Counter[str] = Counter()
        self._devices: dict[str, DeviceReport] = {}
        self._untaken: list[Answer] = []
        self._workers = [_Worker(recipe, Part(i, count), run_dir) for i in range(count)]
        self._threads = ThreadPoolExecutor(count, "rollout-worker")
        """One waits for each worker: the event loop's own threads are fewer than a large machine's workers."""

    async def __aenter__(self) -> RolloutWorkers:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(asyncio.to_thread(worker.close) for worker in self._workers))
        self.take(self._untaken)  # nobody will learn from it, and it cost what it cost
        self._threads.shutdown(wait=False)
        await asyncio.to_thread(remove_orphans, self._recipe)

    def status(self) -> Mapping[str, float]:
        """The sums of all workers', after the last collection."""
        return self._status

    def report(self) -> list[DeviceReport]:
        """The devices of every worker that has played, after its last collection."""
        return list(self._devices.values())

    def judged(self) -> Mapping[str, float]:
        """As a `Collector`'s: the sums of all workers', over all collections."""
        return self._judged

    async def collect(self, tasks: Sequence[Task], prefix: str) -> list[Group]:
        """One group per task, in the order of `tasks`; groups that were lost to failing devices are left out."""
        return self.take(await self.play(tasks, prefix))

    async def play(self, tasks: Sequence[Task], prefix: str) -> list[Answer]:
        """The first half of `collect`. What it counted belongs to whoever takes its groups."""
        jobs = [(f"{prefix}-{i:03d}", task) for i, task in enumerate(tasks)]
        version = self._engine.version
        # Also when every worker has them: one that dies leaves its order to a process that has not. A later moment will
        # not do, since learning may move the weights while this is played.
        weights = self._engine.weights()
        orders = [
            Order(tuple(jobs[i :: len(self._workers)]), _seed(self._seed, prefix, i), version, weights)
            for i in range(len(self._workers))
        ]
        return await asyncio.gather(*(self._play(w, o) for w, o in zip(self._workers, orders, strict=True) if o.jobs))

    async def _play(self, worker: _Worker, order: Order) -> Answer:
        answer = await asyncio.get_running_loop().run_in_executor(self._threads, worker.play, order)
        self._untaken.append(answer)
        return answer

    def take(self, answers: Sequence[Answer]) -> list[Group]:
        """The second half: adds up what was counted, and gives the groups in the order of their tasks."""
        taken = {id(answer) for answer in answers}
        self._untaken = [answer for answer in self._untaken if id(answer) not in taken]
        self._status = Counter()
        for answer in answers:
            self.counts += answer.counts
            self.busy_s += answer.busy_s
            self._judged.update(answer.judged)
            self.last_fault = answer.last_fault or self.last_fault
            self.lost += answer.lost
            self._status.update(answer.status)
            self._devices |= {d.place: d for d in answer.devices}
        return sorted((g for a in answers for g in a.groups), key=_place)


class _Worker:
    """The learner's side of one process. It is started when it is first needed, and again when it has died."""

    def __init__(self, recipe: Recipe, part: Part, run_dir: Path | None) -> None:
        self._recipe, self._part, self._run_dir = recipe, part, run_dir
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self.version: int | None = None
        """Of the weights it has."""
        self._closed = self._playing = False
        self._changing = threading.Lock()

    def play(self, order: Order) -> Answer:
        """Blocks until the order is played. WorkerError when it cannot be."""
        limit_s = longest_s(self._recipe, self._part, len(order.jobs))
        late = 0
        for _ in range(MAX_DEATHS):
            until = time.monotonic() + limit_s
            try:
                answer = self._ask(order, limit_s)
            except (EOFError, OSError):  # killed: by the kernel for memory, say, or for being late
                if time.monotonic() >= until:
                    late += 1
                    log.warning("rollout worker %d: no answer in %g s; another takes over", self._part.index, limit_s)
                self._bury()
                continue
            if isinstance(answer, str):
                raise WorkerError(f"rollout worker {self._part.index}: {answer.splitlines()[-1]}\n{answer}")
            return answer
        reason = f", {late} of them killed for having no answer in {limit_s:g} s" if late else ""
        said = f"rollout worker {self._part.index} died {MAX_DEATHS} times{reason}"
        raise WorkerError(f"{said}; use fewer collect.workers")

    def _ask(self, order: Order, limit_s: float) -> Answer | str:
        """EOFError or OSError when the worker dies. After `limit_s` it is made to."""
        self._playing = True
        pipe = self._pipe or self._start()
        if self.version == order.version:
            order = replace(order, weights=None)
        with self._killed_after(limit_s):
            pipe.send(order)
            answer = pipe.recv()
        self._playing = False
        self.version = order.version
        return answer

    @contextmanager
    def _killed_after(self, seconds: float) -> Iterator[None]:
        """Bounds reading and writing alike: a process that is stopped does not take weights out of the pipe either."""
        assert self._process is not None
        timer = threading.Timer(seconds, self._process.kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        with self._changing:
            if self._closed:
                raise WorkerError("the run is over")
            ours, theirs = context.Pipe()
            arguments = (theirs, self._recipe.model_dump_json(), self._part, self._run_dir)
            name = f"rollout-{self._part.index}"
            process = context.Process(target=worker_process.main, args=arguments, daemon=True, name=name)
            with _interrupts_held():
                process.start()
            theirs.close()  # so that the worker's end of the pipe closes with the worker
            self._process, self._pipe = process, ours
        return ours

    def _bury(self) -> None:
        with self._changing:
            if self._process is not None:
                self._end(self._process)
            if self._pipe is not None:
                self._pipe.close()
            self._process = self._pipe = self.version = None

    def close(self) -> None:
        """Lets an idle worker give its devices back. What one is playing is not needed any more: it is killed."""
        with self._changing:
            self._closed = True
            if self._process is None:
                return
            if not self._playing and self._pipe is not None:
                with suppress(OSError):
                    self._pipe.send(None)
                    self._process.join(CLOSE_S)
            self._end(self._process)

    @staticmethod
    def _end(process: BaseProcess) -> None:
        process.kill()
        process.join(CLOSE_S)  # it is gone at once, but for one that waits for a disk or a driver


def longest_s(recipe: Recipe, part: Part, groups: int) -> float:
    """Seconds after which a worker that has not played `groups` on the devices of `part` must be hanging.

    Far more than a healthy worker takes: as if every try went on to its deadline, and wore out its device.
    """
    collect, fleet = recipe.collect, recipe.fleet
    episode = recipe.agent.deadline_s + (recipe.judge.deadline_s if recipe.judge.reward else 0.0)
    start = START_S
    if fleet.type != "embedded":
        episode += 2 * fleet.refresh_s + fleet.boot_s  # the device is made clean, given up, and another started
        start += fleet.give_up_s  # without a device that works, after which a worker gives up by itself
    rounds = math.ceil(groups * collect.group_size / len(part.among(range(recipe.phone.count))))
    return min(start + rounds * (1 + collect.max_retries) * episode, threading.TIMEOUT_MAX)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C on a terminal reaches children as well. What is started here does not hear it until the worker ignores it.

    Else a worker that is still importing would end with a traceback.
    """
    resource_tracker.ensure_running()  # beside the first child, which would let the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _seed(seed: int, prefix: str, index: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{prefix}/{index}".encode()).digest()[:7], "big")


def _place(group: Group) -> int:
    """Among the tasks of its collection."""
    return int(group.trajectories[0].id.split("-")[-2])
