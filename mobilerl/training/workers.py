"""Collection in worker processes, each with its own phones, copy of the policy and CPU core.

A worker's assignment (groups, weights, seed) is fixed before it starts, so a run is repeatable bit for bit, and a
worker that dies or hangs is replaced by one that repeats the same assignment.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.config import Recipe
from mobilerl.envs.base import DeviceEvent, DeviceReport, Task
from mobilerl.records import Group, LostGroup
from mobilerl.rollout.collector import RETRIES
from mobilerl.suites.fleet import Part, claimed_devices, fleet_type, remove_orphans
from mobilerl.system.child_processes import signals_held
from mobilerl.training import unguarded, worker_process
from mobilerl.training.worker_process import Assignment, WorkerResult

if TYPE_CHECKING:
    from mobilerl.engines.local import LocalEngine

log = logging.getLogger(__name__)
CLOSE_S = 60.0
"""Time limit for a worker to release its devices, in seconds."""
START_S = 1800.0
"""Time limit for a worker to load the model and start its first device, in seconds."""
MAX_DEATHS = 4
"""Number of deaths of a worker on one assignment after which the run fails."""


class WorkerError(RuntimeError):
    """A failure of a worker that a retry does not fix. The first line is the reason; a traceback may follow."""


class RolloutWorkers:
    """Collects for one learner in `recipe.rollout.workers` processes. Use it as an async context manager.

    It has the part of `Collector`'s interface that the training loop uses: `collect`, `counts`, `take_lost`, `busy_s`,
    `devices`. An assignment that a worker does not finish adds nothing to the counts.
    """

    sampling_s = None
    """Not counted; `busy_s` is updated only when workers are done, too."""

    def __init__(self, recipe: Recipe, engine: LocalEngine, run_dir: Path | None = None) -> None:
        count = min(recipe.rollout.workers, recipe.fleet.count)
        self.devices = recipe.fleet.count
        self.held = self.devices + fleet_type(recipe.fleet).spares(recipe.fleet, recipe.fleet.count)
        """Number of devices of all workers, spares included."""
        self.counts: Counter[str] = Counter()
        self.busy_s = 0.0
        self.last_fault = ""
        self.lost: list[LostGroup] = []
        """Lost groups of the results taken so far, as in `Collector`."""
        self._recipe, self._engine, self._seed, self._run_dir = recipe, engine, recipe.train.seed, run_dir
        self._status: Counter[str] = Counter()
        self._judged: Counter[str] = Counter()
        self._devices: dict[str, DeviceReport] = {}
        self._untaken: list[WorkerResult] = []
        self._ended = 0
        self._happened: Callable[[DeviceEvent], None] = lambda event: None
        self._workers = [_Worker(recipe, Part(i, count), run_dir, self._pass_on) for i in range(count)]
        self._threads = ThreadPoolExecutor(count, "rollout-worker")
        """One thread per worker waits for its answer; the event loop's default executor may have fewer."""

    async def __aenter__(self) -> RolloutWorkers:
        self._claim = await asyncio.to_thread(claimed_devices, self._recipe, self._run_dir)
        return self

    async def __aexit__(self, *_: object) -> None:
        with self._claim:
            await asyncio.gather(*(asyncio.to_thread(worker.close) for worker in self._workers))
            self.take(self._untaken)  # only for its costs
            self._threads.shutdown(wait=False)
            await asyncio.to_thread(remove_orphans, self._recipe)

    def status(self) -> Mapping[str, float]:
        """Sums over all workers, after the last collection."""
        return self._status

    def report(self) -> list[DeviceReport]:
        """Reports of all workers' devices, as of each worker's last collection."""
        return list(self._devices.values())

    def on_event(self, happened: Callable[[DeviceEvent], None]) -> None:
        """As in `Collector`; `happened` is called in other threads."""
        self._happened = happened

    def take_lost(self) -> list[LostGroup]:
        """As in `Collector`."""
        taken, self.lost = self.lost, []
        return taken

    def _pass_on(self, event: DeviceEvent) -> None:
        self._happened(event)

    @property
    def ended(self) -> int:
        """As in `Collector`; assignments that are being carried out included."""
        return self._ended + sum(worker.ended for worker in self._workers)

    def count_judge_usage(self) -> Mapping[str, float]:
        """The judge's counts summed over all workers and collections, as in `Collector`."""
        return self._judged

    async def collect(self, tasks: Sequence[Task], prefix: str, draw: bool = True) -> list[Group]:
        """Collects one group per task, as in `Collector`."""
        return self.take(await self.rollout(tasks, prefix, draw=draw))

    async def evaluate(self, tasks: Sequence[Task], prefix: str, draw: bool = True) -> list[Group]:
        """Plays one greedy episode per task, as in `Collector`, once the workers have finished their assignments."""
        answers = await self.rollout(tasks, prefix, evaluate=True, draw=draw)
        return self.take(answers)

    async def rollout(
        self, tasks: Sequence[Task], prefix: str, evaluate: bool = False, draw: bool = True
    ) -> list[WorkerResult]:
        """Plays the groups without adding up their counts, which `take` does."""
        jobs = [(f"{prefix}-{i:03d}", task) for i, task in enumerate(tasks)]
        version = self._engine.version
        # Needed even if every worker has them, since the replacement of a dead worker does not. They are copied now
        # because learning may change them during collection.
        weights = self._engine.weights()
        count = len(self._workers)
        orders = [
            Assignment(tuple(jobs[i::count]), _seed(self._seed, prefix, i), version, weights, evaluate, draw)
            for i in range(count)
        ]
        return await asyncio.gather(*(self._assign(w, o) for w, o in zip(self._workers, orders, strict=True) if o.jobs))

    async def _assign(self, worker: _Worker, order: Assignment) -> WorkerResult:
        answer = await asyncio.get_running_loop().run_in_executor(self._threads, worker.carry_out, order)
        worker.ended, self._ended = 0, self._ended + answer.counts["finished"] + answer.counts["failed"]
        self._untaken.append(answer)
        return answer

    def take(self, answers: Sequence[WorkerResult]) -> list[Group]:
        """Adds up the counts of results of `rollout` and returns their groups in the order of their tasks."""
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
    """The learner's side of one worker process, which is started when first needed and again after it died."""

    def __init__(
        self, recipe: Recipe, part: Part, run_dir: Path | None, happened: Callable[[DeviceEvent], None]
    ) -> None:
        self._recipe, self._part, self._run_dir, self._happened = recipe, part, run_dir, happened
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self.version: int | None = None
        """Version of the worker's weights."""
        self.ended = 0
        """Number of episodes of the current assignment that have ended, a second ago at most."""
        self._closed = self._playing = False
        self._changing = threading.Lock()
        self._busy = threading.Lock()
        """Held during an assignment, so that there is one at a time."""

    def carry_out(self, order: Assignment) -> WorkerResult:
        """Carries out an assignment, blocking until it is done. Raises WorkerError if the worker fails for good."""
        with self._busy:
            return self._carried_out(order)

    def _carried_out(self, order: Assignment) -> WorkerResult:
        """The worker's result, or that of its replacement if it dies or takes longer than `longest_s`."""
        limit_s = longest_s(self._recipe, self._part, len(order.jobs))
        late = 0
        for _ in range(MAX_DEATHS):
            until = time.monotonic() + limit_s
            try:
                self._playing = True
                pipe = self._pipe or self._start()
                with self._killed_after(limit_s):
                    pipe.send(replace(order, weights=None) if self.version == order.version else order)
                    answer = pipe.recv()
                self._playing, self.version = False, order.version
            except (EOFError, OSError):  # killed, for example by the kernel when out of memory, or for being late
                if time.monotonic() >= until:
                    late += 1
                    log.warning("rollout worker %d: no answer in %g s; another takes over", self._part.index, limit_s)
                if self._discard_process() == unguarded.UNGUARDED:
                    raise WorkerError(unguarded.MESSAGE) from None
                continue
            if isinstance(answer, str):
                raise WorkerError(f"rollout worker {self._part.index}: {answer.splitlines()[-1]}\n{answer}")
            return answer
        reason = f", {late} of them killed for having no answer in {limit_s:g} s" if late else ""
        said = f"rollout worker {self._part.index} died {MAX_DEATHS} times{reason}"
        raise WorkerError(f"{said}; use fewer rollout.workers")

    @contextmanager
    def _killed_after(self, seconds: float) -> Iterator[None]:
        """Kills the process after `seconds`, which bounds writes too: a hanging process does not read from the pipe."""
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
            read, write = context.Pipe(duplex=False)
            arguments = (theirs, write, self._recipe, self._part, self._run_dir)
            name = f"rollout-{self._part.index}"
            process = context.Process(target=worker_process.main, args=arguments, daemon=True, name=name)
            with signals_held(signal.SIGINT):
                process.start()
            theirs.close()  # so that the worker's ends of the pipes close with the worker
            write.close()
            threading.Thread(
                target=self._read_notes, args=(read,), name=f"notes-{self._part.index}", daemon=True
            ).start()
            self._process, self._pipe = process, ours
        return ours

    def _read_notes(self, notes: Connection) -> None:
        """Passes on what a process tells until it ends."""
        with notes, suppress(EOFError, OSError):
            while True:
                note = notes.recv()
                if isinstance(note, int):
                    self.ended = note
                else:
                    self._happened(note)

    def _discard_process(self) -> int | None:
        """Returns its exit code, which is that of a signal if it was killed only now."""
        with self._changing:
            code = self._end(self._process) if self._process is not None else None
            if self._pipe is not None:
                self._pipe.close()
            self._process = self._pipe = self.version = None
            return code

    def close(self) -> None:
        """Lets an idle worker release its devices; kills a busy one, whose groups are no longer needed."""
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
    def _end(process: BaseProcess) -> int | None:
        process.kill()
        process.join(CLOSE_S)  # only a process that waits for a disk or a driver takes time to end
        return process.exitcode


def longest_s(recipe: Recipe, part: Part, groups: int) -> float:
    """Seconds after which a worker that collects `groups` groups on the devices of `part` must be hanging.

    This is far more than a healthy worker takes: the time if every attempt ran into its deadline and broke its device.
    """
    fleet = recipe.fleet
    episode = recipe.agent.deadline_s + (recipe.judge.longest_s if recipe.judge.reward else 0.0)
    start = START_S
    if not fleet_type(fleet).in_process:
        episode += 2 * fleet.refresh_s + fleet.boot_s  # the device is refreshed, dropped, and another started
        start += fleet.give_up_s  # time without a working device after which a worker fails by itself
    rounds = math.ceil(groups * recipe.algorithm.group_size / len(part.among(range(recipe.fleet.count))))
    return min(start + rounds * (1 + RETRIES) * episode, threading.TIMEOUT_MAX)


def _seed(seed: int, prefix: str, index: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{prefix}/{index}".encode()).digest()[:7], "big")


def _place(group: Group) -> int:
    """Index of the group's task in its collection."""
    return int(group.trajectories[0].id.split("-")[-2])
