"""How long something has been in each of its states."""

from __future__ import annotations

import time
from collections import defaultdict


class Watch:
    def __init__(self, state: str) -> None:
        self.state = state
        self._since = time.monotonic()
        self._seconds: dict[str, float] = defaultdict(float)

    def enter(self, state: str) -> None:
        now = time.monotonic()
        self._seconds[self.state] += now - self._since
        self.state, self._since = state, now

    def seconds(self) -> dict[str, float]:
        """By state, the present one up to now."""
        self.enter(self.state)
        return dict(self._seconds)
