"""The vLLM servers as one sampler: requests come from any thread, wait while weights change, and are never lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import ray
from PIL.Image import Image
from verl.workers.rollout.llm_server import LLMServerClient

from mobilerl.engines.base import EngineError, Request
from mobilerl.engines.codec import Codec
from mobilerl.records import Completion

T = TypeVar("T")
END_S = 10.0
"""For requests to end when the engine is closed."""
BANNED = -100.0
"""Added to a placeholder's logit; vLLM takes nothing below. What stands behind the last token, verl itself masks."""


class Servers:
    """A thread with an event loop of its own, in which every request is a coroutine."""

    def __init__(self, client: LLMServerClient, codec: Codec, timeout_s: float) -> None:
        self.client, self.codec, self.timeout_s = client, codec, timeout_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm-requests", daemon=True)
        self._thread.start()
        self._open = asyncio.Event()
        self._calls: set[asyncio.Task[Completion]] = set()
        """What servers have been given and have not answered yet."""
        self._number = 0
        self._broken: EngineError | None = None
        self._breaking = threading.Lock()

    def submit(self, request: Request) -> Future[Completion]:
        """Blocks while the pictures are made: in the loop's only thread they would hold up every other request."""
        pictures = [self.codec.picture(png) for png in request.images]
        with self._breaking:  # what comes in before `close` is still answered, if only by an error
            self._check()
            return asyncio.run_coroutine_threadsafe(self._answer(request, pictures), self._loop)

    @property
    def running(self) -> int:
        """Requests that servers are answering, also those that nobody waits for any more."""
        return len(self._calls)

    def pause(self) -> None:
        """Lets nothing more through, and waits for what is running. Raises EngineError after `timeout_s`."""
        self._check()
        self._call(self._drain())

    def resume(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)

    def fail(self, error: EngineError) -> None:
        """Every request that waits or comes raises `error`, or what the servers failed of before."""
        with self._breaking:
            self._broken = self._broken or error
        self.resume()

    def close(self) -> None:
        """Requests that wait or run end with an EngineError. To be called once, and not during a `pause`."""
        self.fail(EngineError("the engine was closed"))
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken

    # --- in the loop's thread ----------------------------------------------------------------------------------

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _end(self) -> None:
        """Left to the garbage collector, a request would report its end to a Ray that it first starts anew."""
        for call in self._calls:
            call.cancel()
        if rest := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(rest, timeout=END_S)

    async def _drain(self) -> None:
        self._open.clear()
        if self._calls and (await asyncio.wait(self._calls, timeout=self.timeout_s))[1]:
            error = self._late("model calls")
            self.fail(error)
            raise error

    async def _answer(self, request: Request, pictures: Sequence[Image]) -> Completion:
        while self._broken is None and not self._open.is_set():  # again: it may be closed before this goes on
            await self._open.wait()
        self._check()
        call = asyncio.create_task(self._ask(request, pictures))
        self._calls.add(call)
        call.add_done_callback(self._answered)
        try:
            # Whoever asked may give up, at an episode's deadline say. The server does not hear of it and answers to the
            # end; until then vLLM cannot drop its cache of prompts, which new weights must not be used with.
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            if call.cancelled():  # by `close`
                self._check()
            raise

    def _answered(self, call: asyncio.Task[Completion]) -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # raised where it is waited for; of one that was given up nobody needs to hear

    async def _ask(self, request: Request, pictures: Sequence[Image]) -> Completion:
        self._number += 1
        try:
            async with asyncio.timeout(self.timeout_s):
                out = await self.client.generate(
                    f"row{self._number}",
                    prompt_ids=list(request.prompt_ids),
                    image_data=list(pictures) or None,
                    sampling_params={
                        "temperature": request.sampling.temperature,
                        "max_tokens": request.sampling.max_new_tokens,
                        "logprobs": True,
                        "logit_bias": dict.fromkeys(self.codec.placeholder_ids, BANNED),
                        "stop_token_ids": list(self.codec.end_ids),
                    },
                )
        except TimeoutError:
            raise self._late("a model call") from None
        except ray.exceptions.RayError as error:
            raise EngineError(f"a vLLM server failed ({one_line(error)}); {CURE}") from error
        ids = tuple(out.token_ids)
        return Completion(request.prompt_ids, ids, tuple(out.log_probs), out.extra_fields["global_steps"],
                          self.codec.decode(ids))  # fmt: skip

    def _late(self, what: str) -> EngineError:
        return EngineError(f"{what} took longer than vllm.timeout_s = {self.timeout_s:g} s; {CURE}")


CURE = "the run's last checkpoint is whole: start the same command again with --resume"


def one_line(error: BaseException) -> str:
    """The last line of what Ray says: the exception itself, after the remote traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:500] if lines else type(error).__name__
