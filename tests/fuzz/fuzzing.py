"""A fuzz target, and how it is run for a while.

A target is a strategy of hostile examples and a check that must hold for each: what may be raised is part of the check.
Coverage does not guide the search; the strategies start from sound inputs and damage them.
"""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

CHUNK = 100
"""Examples between two looks at the clock."""
SLOW_S = 5.0
"""Processor time of one example beyond which it counts as an attack that worked."""
HANG_S = 60.0
"""The same by the clock, for what waits instead of working."""


@dataclass(frozen=True)
class Target:
    """`check(example)` raises for an example that does what it must not."""

    name: str
    examples: SearchStrategy[Any]
    check: Callable[[Any], None]


@dataclass
class Outcome:
    """`crash` is the report of the smallest example that was found, "" for none; `error` what it raised."""

    name: str
    examples: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    """Most processor time of one example."""
    crash: str = ""
    error: BaseException | None = field(default=None, repr=False)


class TooSlow(AssertionError):
    """One example took longer than any sound input does."""


def run_for(target: Target, seconds: float, first_seed: int) -> Outcome:
    """Runs chunks of examples until the time is over, or until one crashes; that one is made smaller first.

    Equal seeds give equal chunks, so a crash can be had again.
    """
    outcome = Outcome(target.name)
    began = time.monotonic()
    chunk = first_seed
    while not outcome.crash and (chunk == first_seed or time.monotonic() - began < seconds):
        _run_chunk(target, chunk, outcome)
        chunk += 1
    outcome.seconds = time.monotonic() - began
    return outcome


def _run_chunk(target: Target, number: int, outcome: Outcome) -> None:
    @seed(number)
    @settings(max_examples=CHUNK, deadline=None, database=None, phases=(Phase.generate, Phase.shrink),
              suppress_health_check=list(HealthCheck), print_blob=False)  # fmt: skip
    @given(target.examples)
    def chunk(example: Any) -> None:
        outcome.examples += 1
        with _watched(outcome):
            target.check(example)

    try:
        chunk()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        outcome.error = error
        outcome.crash = f"chunk {number}\n" + "".join(traceback.format_exception(error))


@contextmanager
def _watched(outcome: Outcome) -> Iterator[None]:
    began = time.process_time()
    with _alarm(HANG_S):
        yield
    used = time.process_time() - began
    outcome.slowest_s = max(outcome.slowest_s, used)
    if used > SLOW_S:
        raise TooSlow(f"one example took {used:.1f} s")


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Interrupts what hangs. Only the main thread can have signals; elsewhere there is no alarm."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: object) -> None:
        raise TooSlow(f"one example did not end in {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
