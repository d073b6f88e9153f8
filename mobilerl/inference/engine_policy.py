"""Policies on top of engines: chat messages and screenshots in, token-exact completions out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mobilerl.policy.actor import Messages
from mobilerl.records import Completion
from mobilerl.records.engine import Engine, Request, Sampling, StreamingEngine

LATE_WAIT_S = 0.25
"""Seconds that a batch waits for more requests if the run need not be repeatable."""


class BusyTime:
    """Measures for how long at least one of several concurrent calls was running."""

    def __init__(self) -> None:
        self._running, self._since, self._total = 0, 0.0, 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Counts a call of this thread as running."""
        if not self._running:
            self._since = time.monotonic()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._total += time.monotonic() - self._since

    def seconds(self) -> float:
        """Seconds so far, including calls that are running."""
        return self._total + (time.monotonic() - self._since if self._running else 0.0)


@dataclass(slots=True)
class _Waiting:
    key: str
    request: Request
    future: asyncio.Future[Completion]


class EnginePolicy:
    """Batches the requests of many concurrent episodes into calls of an engine.

    A batch is formed when all running episodes (see `expect`) have sent a request, or when the oldest request
    has waited `max_wait_s`. Without a time limit, batches depend only on the episodes and never on the clock, so that a
    synchronous run is reproducible bit for bit.
    """

    def __init__(self, engine: Engine, max_wait_s: float | None = None) -> None:
        self.engine = engine
        self.max_wait_s = max_wait_s
        self.sampling = BusyTime()
        self._expected: Callable[[], int] = lambda: 1
        self._waiting: list[_Waiting] = []
        self._running: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def expect(self, episodes: Callable[[], int]) -> None:
        """`episodes` counts the running episodes, each of which sends one request at a time; by default one."""
        self._expected = episodes

    async def act(self, messages: Messages, images: Sequence[bytes], sampling: Sampling, key: str = "") -> Completion:
        loop = asyncio.get_running_loop()
        request = Request(self.engine.codec.encode(messages, images), tuple(images), sampling)
        entry = _Waiting(key, request, loop.create_future())
        self._waiting.append(entry)
        if self.max_wait_s is not None and self._timer is None:
            self._timer = loop.call_later(self.max_wait_s, self._flush)
        self.check_batch()
        return await entry.future

    def check_batch(self) -> None:
        """Forms a batch if all episodes have sent a request. Call it when an episode begins or ends."""
        self._waiting = [w for w in self._waiting if not w.future.done()]
        if self._waiting and len(self._waiting) >= self._expected():
            self._flush()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._running is None:
            batch = sorted((w for w in self._waiting if not w.future.done()), key=lambda w: w.key)
            self._waiting = []
            if batch:
                self._running = asyncio.get_running_loop().create_task(self._run(batch))
                self._running.add_done_callback(lambda task: self._start_next())

    def _start_next(self) -> None:
        self._running = None
        if self.max_wait_s is not None and self._waiting:
            self._flush()
        else:
            self.check_batch()

    async def _run(self, batch: list[_Waiting]) -> None:
        """Makes one engine call per sampling setting. A failure is raised in every episode of the call."""
        for sampling in dict.fromkeys(w.request.sampling for w in batch):
            part = [w for w in batch if w.request.sampling == sampling]
            try:
                with self.sampling.running():
                    results = await asyncio.to_thread(self.engine.generate, [w.request for w in part])
                pairs = list(zip(part, results, strict=True))
            except Exception as error:
                for waiting in part:
                    if not waiting.future.done():
                        waiting.future.set_exception(error)
                continue
            for waiting, completion in pairs:
                if not waiting.future.done():
                    waiting.future.set_result(completion)


class StreamPolicy:
    """Sends every request immediately to an engine that does its own batching; no episode waits for another.

    Batches depend on the clock, so a run is not reproducible bit for bit.
    """

    def __init__(self, engine: StreamingEngine) -> None:
        self.engine = engine
        self.sampling = BusyTime()

    async def act(self, messages: Messages, images: Sequence[bytes], sampling: Sampling, key: str = "") -> Completion:
        # In a thread, because resizing a screenshot would hold up hundreds of other episodes.
        ids = await asyncio.to_thread(self.engine.codec.encode, messages, images)
        request = Request(ids, tuple(images), sampling)
        with self.sampling.running():
            return await asyncio.wrap_future(await asyncio.to_thread(self.engine.submit, request))
