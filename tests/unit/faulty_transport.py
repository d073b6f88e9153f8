"""Faults on demand for a phone of this process: what takes a served phone time is over at once here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from mobilerl.envs.base import InfraError, ShellResult, Transport
from mobilerl.envs.phone.faults import Fault, FaultPlan, spoil

T = TypeVar("T")


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
        return ShellResult(
            spoil(fault, result.stdout.encode()).decode(errors="replace"), result.stderr, result.exit_code
        )

    def exec_out(self, cmd: Sequence[str] | str, timeout: float = 10.0) -> bytes:
        result, fault = self._suffer(cmd, lambda: self._transport.exec_out(cmd, timeout))
        return spoil(fault, result)

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
