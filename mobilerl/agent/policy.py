"""Policies: chat messages and screenshots in, a token-exact completion out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mobilerl.engines.base import Engine, Request, Sampling, StreamingEngine
from mobilerl.records import Completion

Messages = Sequence[dict[str, Any]]


class Policy(Protocol):
    """Whatever can take the next turn of a conversation. Raises only when the model itself cannot be reached."""

    async def act(self, messages: Messages, images: Sequence[bytes], sampling: Sampling, key: str = "") -> Completion:
        """`key` names the episode; it orders requests, so that batches do not depend on timing."""


@dataclass(slots=True)
class _Waiting:
    key: str
    request: Request
    future: asyncio.Future[Completion]


class EnginePolicy:
    """Batches the requests of many concurrent episodes into calls of an engine.

    A batch is formed when every episode that can ask has asked (`expected` counts them), or when the oldest request has
    waited `max_wait_s`. Without a time limit the batches depend only on the episodes, never on the clock: that is what
    makes a synchronous run repeatable bit for bit.
    """

    def __init__(self, engine: Engine, max_wait_s: float | None = None) -> None:
        self.engine = engine
        self.max_wait_s = max_wait_s
        self.expected: Callable[[], int] = lambda: 1
        self._waiting: list[_Waiting] = []
        self._running: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def act(self, messages: Messages, images: Sequence[bytes], sampling: Sampling, key: str = "") -> Completion:
        loop = asyncio.get_running_loop()
        request = Request(self.engine.codec.encode(messages, images), tuple(images), sampling)
        entry = _Waiting(key, request, loop.create_future())
        self._waiting.append(entry)
        if self.max_wait_s is not None and self._timer is None:
            self._timer = loop.call_later(self.max_wait_s, self._flush)
        self.poke()
        return await entry.future

    def poke(self) -> None:
        """An episode began, asked or ended: looks whether everybody who can ask has asked."""
        self._waiting = [w for w in self._waiting if not w.future.done()]
        if self._waiting and len(self._waiting) >= self.expected():
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
                self._running.add_done_callback(lambda task: self._finished())

    def _finished(self) -> None:
        self._running = None
        if self.max_wait_s is not None and self._waiting:
            self._flush()
        else:
            self.poke()

    async def _run(self, batch: list[_Waiting]) -> None:
        """Groups a batch by sampling settings; a failure of the engine reaches every episode that asked."""
        kinds = dict.fromkeys(w.request.sampling for w in batch)
        for sampling in kinds:
            part = [w for w in batch if w.request.sampling == sampling]
            try:
                results = await asyncio.to_thread(self.engine.generate, [w.request for w in part])
                pairs = list(zip(part, results, strict=True))
            except Exception as error:  # handed on, never swallowed: each waiting episode raises it
                for waiting in part:
                    if not waiting.future.done():
                        waiting.future.set_exception(error)
                continue
            for waiting, completion in pairs:
                if not waiting.future.done():
                    waiting.future.set_result(completion)


class StreamPolicy:
    """Gives every request at once to an engine that batches by itself; no episode waits for another.

    Which requests share a batch depends on the clock, so that a run is not repeatable bit for bit.
    """

    def __init__(self, engine: StreamingEngine) -> None:
        self.engine = engine

    async def act(self, messages: Messages, images: Sequence[bytes], sampling: Sampling, key: str = "") -> Completion:
        # Resizing a full screen takes long enough to hold up hundreds of other episodes.
        ids = await asyncio.to_thread(self.engine.codec.encode, messages, images)
        request = Request(ids, tuple(images), sampling)
        return await asyncio.wrap_future(await asyncio.to_thread(self.engine.submit, request))
