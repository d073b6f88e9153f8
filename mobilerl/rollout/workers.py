"""Collection in worker processes, each with phones and a copy of the policy of its own, on a core of its own.

What a worker plays is decided before it starts (which groups, which weights, which seed), so a run is repeatable bit
for bit, and a worker that dies is replaced by one that plays the same again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import os
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from envs.base import Task
from mobilerl.config import Recipe, validate
from mobilerl.fleet import remove_orphans
from mobilerl.records import Group

if TYPE_CHECKING:
    from mobilerl.engines.base import Engine

CLOSE_S = 60.0
"""For a worker to give its devices back."""
MAX_DEATHS = 4
"""Deaths of one worker in one collection after which the run is given up."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is to play. `weights` is None when it has those of `version`."""

    jobs: tuple[tuple[str, Task], ...]
    """Group ids, unique within a run, and their tasks."""
    seed: int
    version: int
    weights: bytes | None


@dataclass(frozen=True, slots=True)
class Answer:
    groups: tuple[Group, ...]
    counts: Counter[str]
    busy_s: float
    status: Mapping[str, float]
    """The collector's, afterwards."""


class WorkerError(RuntimeError):
    """A worker failed in a way that repeating does not mend. The first line says it; a traceback may follow."""


class RolloutWorkers:
    """`recipe.collect.workers` processes that collect for one learner. Use as an async context manager.

    Offers what `train.source.InTurns` and the loop need of a `Collector`: `collect`, `counts`, `busy_s`, `devices`.
    """

    def __init__(self, recipe: Recipe, engine: Engine) -> None:
        count = min(recipe.collect.workers, recipe.phone.count)
        self.devices = recipe.phone.count
        self.counts: Counter[str] = Counter()
        self.busy_s = 0.0
        self._recipe, self._engine, self._seed = recipe, engine, recipe.train.seed
        self._status: Counter[str] = Counter()
        self._workers = [_Worker(recipe, i, count) for i in range(count)]

    async def __aenter__(self) -> RolloutWorkers:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(asyncio.to_thread(worker.close) for worker in self._workers))
        await asyncio.to_thread(remove_orphans, self._recipe)

    def status(self) -> Mapping[str, float]:
        """The sums of all workers', after the last collection."""
        return self._status

    async def collect(self, tasks: Sequence[Task], prefix: str) -> list[Group]:
        """One group per task, in the order of `tasks`; groups that were lost to failing devices are left out."""
        jobs = [(f"{prefix}-{i:03d}", task) for i, task in enumerate(tasks)]
        version = self._engine.version
        weights = None if all(w.version == version for w in self._workers) else self._engine.weights()
        orders = [
            Order(tuple(jobs[i :: len(self._workers)]), _seed(self._seed, prefix, i), version, weights)
            for i in range(len(self._workers))
        ]
        answers = await asyncio.gather(
            *(asyncio.to_thread(w.play, o) for w, o in zip(self._workers, orders, strict=True) if o.jobs)
        )
        self._status = Counter()
        for answer in answers:
            self.counts += answer.counts
            self.busy_s += answer.busy_s
            self._status.update(answer.status)
        order = {group_id: i for i, (group_id, _) in enumerate(jobs)}
        return sorted((g for a in answers for g in a.groups), key=lambda g: order[_group_id(g)])


class _Worker:
    """The learner's side of one process. It is started when it is first needed, and again when it has died."""

    def __init__(self, recipe: Recipe, index: int, count: int) -> None:
        self._recipe, self._index, self._count = recipe, index, count
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None
        self.version: int | None = None
        """Of the weights it has."""
        self._closed = self._playing = False
        self._changing = threading.Lock()

    def play(self, order: Order) -> Answer:
        """Blocks until the order is played. WorkerError when it cannot be."""
        for _ in range(MAX_DEATHS):
            try:
                answer = self._ask(order)
            except (EOFError, OSError):  # killed: by the kernel for memory, say
                self._bury()
                continue
            if isinstance(answer, str):
                raise WorkerError(f"rollout worker {self._index}: {answer.splitlines()[-1]}\n{answer}")
            return answer
        raise WorkerError(f"rollout worker {self._index} died {MAX_DEATHS} times; use fewer collect.workers")

    def _ask(self, order: Order) -> Answer | str:
        self._playing = True
        pipe = self._pipe or self._start()
        if self.version == order.version:
            order = Order(order.jobs, order.seed, order.version, None)
        pipe.send(order)
        answer = pipe.recv()
        self._playing = False
        self.version = order.version
        return answer

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        with self._changing:
            if self._closed:
                raise WorkerError("the run is over")
            ours, theirs = context.Pipe()
            arguments = (theirs, self._recipe.model_dump_json(), self._index, self._count)
            process = context.Process(target=_main, args=arguments, daemon=True, name=f"rollout-{self._index}")
            process.start()
            theirs.close()  # so that the worker's end of the pipe closes with the worker
            self._process, self._pipe = process, ours
        return ours

    def _bury(self) -> None:
        with self._changing:
            if self._process is not None:
                self._process.kill()
                self._process.join()
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
            self._process.kill()
            self._process.join()


def _seed(seed: int, prefix: str, index: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{prefix}/{index}".encode()).digest()[:7], "big")


def _group_id(group: Group) -> str:
    return group.trajectories[0].id.rsplit("-", 1)[0]


# --- in the worker ---------------------------------------------------------------------------------------------


def _main(pipe: Connection, recipe_json: str, index: int, count: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the learner, which then ends its workers
    threading.Thread(target=_end_with_the_learner, daemon=True).start()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    asyncio.run(_serve(pipe, recipe_json, index, count))


async def _serve(pipe: Connection, recipe_json: str, index: int, count: int) -> None:
    """Plays orders until there are no more. Devices are looked after between them as well."""
    crew: _Crew | None = None
    while True:
        try:
            order = await asyncio.to_thread(pipe.recv)
        except (EOFError, OSError):
            return  # the learner is gone
        if order is None:
            if crew is not None:
                await crew.collector.close()
            return
        try:
            if crew is None:
                crew = _Crew(validate(Recipe, json.loads(recipe_json), "the run's recipe"), index, count)
            answer: Answer | str = await crew.play(order)
        except Exception:  # handed on, never swallowed: the learner raises it
            answer = traceback.format_exc()
        pipe.send(answer)


def _end_with_the_learner() -> None:
    """Also in mid-play: a run that was killed must leave the cores to the one that resumes it."""
    learner = multiprocessing.parent_process()
    assert learner is not None
    wait([learner.sentinel])
    os._exit(1)


class _Crew:
    """A worker's engine and collector."""

    def __init__(self, recipe: Recipe, index: int, count: int) -> None:
        from mobilerl.fleet import make_devices
        from mobilerl.setup import make_collector, make_engine

        phones = recipe.phone.count
        first, last = phones * index // count, phones * (index + 1) // count
        settings = recipe.engine.model_copy(update={"threads": 1, "generate_threads": 1})
        self.engine = make_engine(recipe.model, settings, recipe.collect.temperature)
        self.collector = make_collector(recipe, self.engine, make_devices(recipe, first, last - first), count)
        self._started = False

    async def play(self, order: Order) -> Answer:
        import torch

        if not self._started:
            await self.collector.start()
            self._started = True
        if order.weights is not None:
            self.engine.set_weights(order.weights, order.version)
        torch.manual_seed(order.seed)
        before, busy = self.collector.counts.copy(), self.collector.busy_s
        for group_id, task in order.jobs:
            await self.collector.dispatch(task, group_id)
        groups = [group async for group in self.collector.ready(len(order.jobs))]
        return Answer(tuple(groups), self.collector.counts - before, self.collector.busy_s - busy,
                      self.collector.status())  # fmt: skip
