"""Requests to a sampler with continuous batching: accepted from any thread, and held back while weights change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from PIL.Image import Image

from mobilerl.models.codec import Codec
from mobilerl.records import Completion
from mobilerl.records.engine import EngineError, Request

T = TypeVar("T")
CLOSE_S = 10.0
"""Seconds that requests have to end when the engine is closed."""
CLOSED = EngineError("the engine was closed")
RESUME = "the run's last checkpoint is intact: start the same command again with --resume"


class RequestLoop:
    """A thread with an event loop in which every request is a coroutine. Requests are held back until `resume`."""

    def __init__(
        self, ask: Callable[[Request, Sequence[Image]], Awaitable[Completion]], codec: Codec, timeout_s: float
    ) -> None:
        """`ask` samples one request; it gets the images at the size at which the model sees them."""
        self.codec, self.timeout_s = codec, timeout_s
        self._ask = ask
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm-requests", daemon=True)
        self._thread.start()
        self._open = asyncio.Event()
        self._calls: set[asyncio.Task[Completion]] = set()
        """Requests that were sent and not yet answered."""
        self._broken: EngineError | None = None
        self._breaking = threading.Lock()

    def submit(self, request: Request) -> Future[Completion]:
        """Submits a request, after preparing its images in this thread so that they do not hold up other requests."""
        images = [self.codec.images.scale(png) for png in request.images]
        with self._breaking:  # a request that arrives before `close` still gets an answer, if only an error
            self.check()
            return asyncio.run_coroutine_threadsafe(self._answer(request, images), self._loop)

    @property
    def running(self) -> int:
        """Number of requests being answered, including those whose caller has given up."""
        return len(self._calls)

    def pause(self) -> None:
        """Holds back new requests and waits for those running. Raises EngineError after `timeout_s`."""
        self.check()
        self.run(self._drain())

    def resume(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)

    def fail(self, error: EngineError) -> None:
        """Makes every waiting or later request raise `error`, or the error of an earlier `fail`."""
        with self._breaking:
            self._broken = self._broken or error
        self.resume()

    def close(self) -> None:
        """Ends all requests with EngineError. It must not be called during `pause`."""
        self.fail(CLOSED)
        if self._thread.is_alive():
            self.run(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def check(self) -> None:
        """Raises the error passed to `fail`, if any."""
        if self._broken is not None:
            raise self._broken

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the loop's thread and returns its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _end(self) -> None:
        for call in self._calls:
            call.cancel()
        if rest := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(rest, timeout=CLOSE_S)

    async def _drain(self) -> None:
        self._open.clear()
        if self._calls and (await asyncio.wait(self._calls, timeout=self.timeout_s))[1]:
            error = self._late("model calls")
            self.fail(error)
            raise error

    async def _answer(self, request: Request, images: Sequence[Image]) -> Completion:
        while self._broken is None and not self._open.is_set():  # it may be closed again before this continues
            await self._open.wait()
        self.check()
        call = asyncio.create_task(self._measure_call(request, images))
        self._calls.add(call)
        call.add_done_callback(self._finish_call)
        try:
            # The caller may give up, for example at an episode's deadline, but the server still finishes its answer,
            # and weights must not change until then.
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            if call.cancelled():  # by `close`
                self.check()
            raise

    def _finish_call(self, call: asyncio.Task[Completion]) -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # marked as retrieved: the caller may have given up

    async def _measure_call(self, request: Request, images: Sequence[Image]) -> Completion:
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._ask(request, images)
        except TimeoutError:
            raise self._late("a model call") from None

    def _late(self, what: str) -> EngineError:
        return EngineError(f"{what} took longer than {self.timeout_s:g} s; {RESUME}")
