"""Faults on demand, seeded: what emulators do to those who drive hundreds of them.

A plan decides before each command whether it fails, and how. The same plan is carried out on a served phone (which
really drops its connections, stays silent or dies) and on a phone of this process (`FaultyTransport`).
"""

from __future__ import annotations

import io
import random
import time
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import TypeVar

from PIL import Image

from envs.base import InfraError, ShellResult, Transport

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
        """What happens to the next command. Draws the same number of random numbers whatever the command is."""
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


def spoiled(fault: Fault | None, stdout: bytes) -> bytes:
    """A command's output as BLACK and TRUNCATED leave it."""
    if fault is Fault.TRUNCATED:
        return stdout[: len(stdout) // 2]
    if fault is Fault.BLACK and stdout:
        black = io.BytesIO()
        Image.new("RGB", Image.open(io.BytesIO(stdout)).size).save(black, "PNG")
        return black.getvalue()
    return stdout


class FaultyTransport:
    """A phone of this process that fails by plan. What takes a served phone time is over at once here.

    OFFLINE and HANG fail one command; after CRASH all fail until `revive`; REBOOT calls `boot`.
    """

    def __init__(self, transport: Transport, plan: FaultPlan, boot: Callable[[], None]) -> None:
        self.serial, self.plan = transport.serial, plan
        self.crashed = False
        self._transport, self._boot = transport, boot

    def revive(self) -> None:
        self.crashed = False
        self._boot()

    def shell(self, cmd: Sequence[str] | str, timeout: float = 10.0) -> ShellResult:
        result, fault = self._suffer(cmd, lambda: self._transport.shell(cmd, timeout))
        return ShellResult(spoiled(fault, result.stdout.encode()).decode(errors="replace"), result.stderr,
                           result.exit_code)  # fmt: skip

    def exec_out(self, cmd: Sequence[str] | str, timeout: float = 10.0) -> bytes:
        result, fault = self._suffer(cmd, lambda: self._transport.exec_out(cmd, timeout))
        return spoiled(fault, result)

    def push(self, data: bytes, path: str) -> None:
        self._suffer("push", lambda: self._transport.push(data, path))

    def pull(self, path: str) -> bytes:
        return self._suffer("pull", lambda: self._transport.pull(path))[0]

    def _suffer(self, cmd: Sequence[str] | str, work: Callable[[], T]) -> tuple[T, Fault | None]:
        fault = self.plan.next(cmd if isinstance(cmd, str) else " ".join(cmd))
        self.crashed |= fault is Fault.CRASH
        if self.crashed or fault is Fault.OFFLINE:
            raise InfraError(f"{self.serial}: device offline")
        if fault is Fault.REBOOT:
            self._boot()
            raise InfraError(f"{self.serial}: closed")
        if fault is Fault.HANG:
            if self.plan.carried_out():
                work()
            raise InfraError(f"{self.serial}: no answer in time")
        if fault is Fault.SLOW:
            time.sleep(self.plan.settings.slow_s)
        return work(), fault
