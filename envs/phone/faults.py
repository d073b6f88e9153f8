"""Faults on demand, seeded: what emulators do to those who drive hundreds of them.

A plan decides before each command whether it fails, and how. A served phone carries it out: it
really drops its connections, stays silent or dies.
"""

from __future__ import annotations

import io
import random
from bisect import bisect
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import TypeVar

from PIL import Image

T = TypeVar("T")


class Fault(StrEnum):
    OFFLINE = "offline"
    """The phone drops its connections and refuses new ones for a while; its state stays."""
    HANG = "hang"
    """The command is never answered. Half of the time it was carried out."""
    SLOW = "slow"
    """The answer comes late."""
    BLACK = "black"
    """A screenshot shows nothing."""
    TRUNCATED = "truncated_xml"
    """A layout dump stops in the middle."""
    CRASH = "crash"
    """The phone dies, and does not come back by itself."""
    REBOOT = "reboot"
    """The phone is gone for a moment and comes back at its home screen."""


RARE = {Fault.CRASH: 0.05, Fault.REBOOT: 0.05}
"""How often faults strike, as a multiple of the others: a phone is slow or silent far more often than it dies."""
ONLY = {Fault.BLACK: "screencap", Fault.TRUNCATED: "uiautomator"}
"""Faults that strike one command only."""


@dataclass(frozen=True, slots=True)
class FaultSettings:
    """`rate`: share of commands that fail. Times in seconds."""

    rate: float = 0.0
    kinds: tuple[Fault, ...] = tuple(Fault)
    seed: int = 0
    offline_s: float = 0.5
    slow_s: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1 or min(self.offline_s, self.slow_s) < 0:
            raise ValueError(f"faults: rate {self.rate:g} must be 0 to 1, and times must not be negative")


class FaultPlan:
    """The faults of one phone: a function of the settings, the phone's name and the number of commands so far."""

    def __init__(self, settings: FaultSettings, name: str) -> None:
        self.settings = settings
        self.counts: Counter[Fault] = Counter()
        self._rng = random.Random(f"{settings.seed}/{name}")

    def next(self, line: str) -> Fault | None:
        """What happens to the next command. Draws the same number of random numbers for every command."""
        strikes, which = self._rng.random() < self.settings.rate, self._rng.random()
        kinds = [k for k in self.settings.kinds if ONLY.get(k, "") in line]
        if not strikes or not kinds:
            return None
        ends = list(accumulate(RARE.get(kind, 1.0) for kind in kinds))
        fault = kinds[bisect(ends, which * ends[-1])]
        self.counts[fault] += 1
        return fault

    def carried_out(self) -> bool:
        """Whether a command that hangs is carried out all the same."""
        return self._rng.random() < 0.5


def spoil(fault: Fault | None, stdout: bytes) -> bytes:
    """A command's output as BLACK and TRUNCATED leave it."""
    if fault is Fault.TRUNCATED:
        return stdout[: len(stdout) // 2]
    if fault is Fault.BLACK and stdout:
        black = io.BytesIO()
        Image.new("RGB", Image.open(io.BytesIO(stdout)).size).save(black, "PNG")
        return black.getvalue()
    return stdout
