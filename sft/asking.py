"""Asks a model for proposals: many requests at once, while other steps are read and encoded."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from typing import Any, TypeVar

from mobilerl.inference.client import Usage
from mobilerl.policy.actor import Fits, Messages, Policy
from mobilerl.policy.context import ContextPolicy
from mobilerl.records.engine import Sampling
from mobilerl.sft.proposal_log import ProposalLog
from mobilerl.sft.reasoning import Proposal
from mobilerl.sft.samples import ExpertStep

T = TypeVar("T")
AHEAD = 4
"""Proposals that are asked for or waiting to be, for each request in flight: steps are used in order, and a slow answer
must not hold up those after it."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model that proposes."""

    name: str
    """What its proposals are stored under: another model must have another one."""
    policy: Policy
    context: ContextPolicy
    sampling: Sampling
    usage: Usage = field(default_factory=Usage)
    """Counters of the client, where the model is on a server."""
    fits: Fits | None = None
    """Whether a prompt is short enough; None: any is, or the policy itself refuses it."""
    shrink: Callable[[bytes], bytes] = bytes
    """Scales a screenshot, once for all candidates, down to what the model sees."""


class Asker:
    """Gets `candidates` proposals for each step, from the log or else from the model."""

    def __init__(self, model: Model, log: ProposalLog, candidates: int, in_flight: int) -> None:
        self.model, self.log, self.candidates = model, log, candidates
        self.ahead = 1 + AHEAD * in_flight // candidates
        self._gate = asyncio.Semaphore(in_flight)
        self._running: dict[tuple[str, int], asyncio.Task[str]] = {}
        self._prompt_tokens = self._completion_tokens = 0

    def proposals(self, steps: Iterable[ExpertStep]) -> Iterator[tuple[ExpertStep, list[Proposal]]]:
        """Yields every step with its proposals, in the order of `steps`. Those of a prompt that does not fit are none.

        In memory are the steps of `ahead`, with their screenshots.
        """
        window: deque[tuple[ExpertStep, Future[list[Proposal]]]] = deque()
        with background_loop() as submit:
            for number, step in enumerate(steps):
                window.append((step, submit(self._propose(number, step))))
                if len(window) > self.ahead:
                    first, found = window.popleft()
                    yield first, found.result()
            while window:
                first, found = window.popleft()
                yield first, found.result()

    async def _propose(self, number: int, step: ExpertStep) -> list[Proposal]:
        model = self.model
        messages, images = step.messages(model.context)
        if model.fits and not await asyncio.to_thread(model.fits, messages, images):
            return []
        name, candidates = prompt_name(messages, images, model.sampling), range(self.candidates)
        if any(self.log.find(name, k) is None for k in candidates):
            images = await asyncio.to_thread(lambda: [model.shrink(png) for png in images])

        async def answer(k: int) -> str:
            key, known = (name, k), self.log.find(name, k)
            if known is not None:
                return known
            if key not in self._running:  # the same prompt may come twice
                ask = self._ask(messages, images, key, f"{number:08d}-{k:02d}", step)
                self._running[key] = asyncio.create_task(ask)
                self._running[key].add_done_callback(lambda _: self._running.pop(key))
            return await self._running[key]

        texts = await asyncio.gather(*map(answer, candidates))
        responses = (model.context.parse(text, step.screen) for text in texts)
        return [Proposal(response.thought, response.action) for response in responses]

    async def _ask(
        self, messages: Messages, images: Sequence[bytes], key: tuple[str, int], name: str, step: ExpertStep
    ) -> str:
        async with self._gate:
            completion = await self.model.policy.act(messages, images, self.model.sampling, name)
        usage = self.model.usage
        tokens = usage.prompt_tokens - self._prompt_tokens, usage.completion_tokens - self._completion_tokens
        self._prompt_tokens, self._completion_tokens = usage.prompt_tokens, usage.completion_tokens
        self.log.add(*key, completion.text, tokens, task=step.task.id, index=step.observation.step)
        return completion.text


def prompt_name(messages: Messages, images: Sequence[bytes], sampling: Sampling) -> str:
    """Digest of all that an answer depends on besides the model; steps with equal prompts share their proposals."""
    shown = [hashlib.blake2b(png, digest_size=16).hexdigest() for png in images]
    text = json.dumps([messages, shown, astuple(sampling)], sort_keys=True)
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


@contextmanager
def background_loop() -> Iterator[Callable[[Coroutine[Any, Any, T]], Future[T]]]:
    """Runs coroutines in a thread with an event loop. At the end, those that still run are cancelled."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="proposals", daemon=True)
    thread.start()

    async def cancel_rest() -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    try:
        yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop)
    finally:
        asyncio.run_coroutine_threadsafe(cancel_rest(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
