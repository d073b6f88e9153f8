"""Fuzz targets and how to run them.

A target is a strategy of hostile examples and a check that must hold for each of them. The search is not guided by
coverage; the strategies start from valid inputs and damage them.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

CHUNK = 100
"""Examples per seed."""
SLOW_S = 5.0
"""Maximum processor time of one example."""
HANG_S = 60.0
"""Maximum wall-clock time of one example."""


@dataclass(frozen=True)
class Target:
    """`check(example)` raises for an example that is handled wrongly."""

    name: str
    examples: SearchStrategy[Any]
    check: Callable[[Any], None]


class TooSlow(AssertionError):
    """One example took longer than any valid input does."""


def run_for(target: Target, seconds: float, first_seed: int) -> int:
    """Runs chunks of examples until the time is up, and returns how many. Needs the main thread.

    The first failure is shrunk and raised. Equal seeds give equal chunks, so failures are reproducible.
    """
    examples, start, number = 0, time.monotonic(), first_seed
    while number == first_seed or time.monotonic() - start < seconds:

        @seed(number)
        @settings(
            max_examples=CHUNK,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(target.examples)
        def chunk(example: Any) -> None:
            nonlocal examples
            examples += 1
            with _limited():
                target.check(example)

        chunk()
        number += 1
    return examples


@contextmanager
def _limited() -> Iterator[None]:
    def ring(number: int, frame: object) -> None:
        raise TooSlow(f"one example did not end within {HANG_S:g} s")

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    start = time.process_time()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    if (used := time.process_time() - start) > SLOW_S:
        raise TooSlow(f"one example took {used:.1f} s")
