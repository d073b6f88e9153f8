"""When the next request may be sent."""

from __future__ import annotations

import asyncio
import time


class Pace:
    """Spaces requests evenly, and holds all of them back when the server asks for it."""

    def __init__(self, per_minute: float | None) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._lock = asyncio.Lock()

    async def turn(self) -> None:
        """Returns when the next request may be sent, in the order of asking."""
        async with self._lock:
            while (wait := self._next - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            self._next = time.monotonic() + self._interval

    def hold(self, seconds: float) -> None:
        self._next = max(self._next, time.monotonic() + seconds)
