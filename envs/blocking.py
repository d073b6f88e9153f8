"""Coroutines from synchronous code, even inside a notebook's event loop, and synchronous code from coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def outside(call: Callable[[], T]) -> T:
    """The result of a call that starts an event loop. If a loop is running already, the call is made in a thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call()
    with ThreadPoolExecutor(1, "outside") as thread:
        return thread.submit(call).result()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in an event loop of its own and returns its result."""
    return outside(lambda: asyncio.run(coroutine))


class OneAtATime:
    """Runs blocking work in threads, one call after the other. A call finishes even if its caller is cancelled.

    What an abandoned episode or a disconnected host began is over before anything else touches the phone.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def __call__(self, work: Callable[[], T]) -> T:
        return await asyncio.shield(asyncio.ensure_future(self._alone(work)))

    async def _alone(self, work: Callable[[], T]) -> T:
        async with self._turn:
            return await asyncio.to_thread(work)
