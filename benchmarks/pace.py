"""How fast this machine is just now, so that times taken at another pace can be compared.

Machines of one class, and one machine at different hours, were seen to differ by four times: virtual cores share their
hardware with others. What is measured here is fixed work that is not this project's.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Mapping

import numpy as np

LONG_ENOUGH_S = 0.2
"""Of CPU time, for each kind of work."""


def pace() -> dict[str, float]:
    """Units of work per second of CPU time: the interpreter's, compression's and matrix multiplication's."""
    return {name: _rate(work) for name, work in WORK.items()}


def quicker(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """How many times as fast the second pace is, by the geometric mean; 1 where they have no work in common."""
    both = [math.log(after[name] / before[name]) for name in before.keys() & after.keys()]
    return math.exp(sum(both) / len(both)) if both else 1.0


def mean(paces: list[Mapping[str, float]]) -> dict[str, float]:
    return {name: round(sum(p[name] for p in paces) / len(paces), 1) for name in paces[0]}


def _rate(work: Callable[[], object]) -> float:
    began, done = time.process_time(), 0
    while (spent := time.process_time() - began) < LONG_ENOUGH_S:
        work()
        done += 1
    return done / spent


def _interpret() -> int:
    words = {}
    for i in range(2000):
        words[str(i)] = i * i % 7
    return sum(words.values())


_PIXELS = np.random.default_rng(0).integers(0, 8, 100_000, dtype=np.uint8).tobytes()
_MATRIX = np.random.default_rng(0).random((96, 96), dtype=np.float32)  # too small for a second thread

WORK: dict[str, Callable[[], object]] = {
    "interpreter": _interpret,
    "zlib": lambda: zlib.compress(_PIXELS, 6),
    "matmul": lambda: _MATRIX @ _MATRIX,
}
