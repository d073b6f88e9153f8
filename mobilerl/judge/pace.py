"""When the next request may be sent."""

from __future__ import annotations

import asyncio
import email.utils
import time
from collections.abc import Mapping


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


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a reply's headers ask to wait, given as a number or as a date; None when they do not."""
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
