"""Serves phones on TCP ports of this machine, one port each, like emulators."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from mobilerl.envs.blocking import OneAtATime
from mobilerl.envs.phone.adbd.auth import PublicKey
from mobilerl.envs.phone.adbd.connection import Connection
from mobilerl.envs.phone.faults import Fault, FaultPlan, spoil
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell import Result, Session, Shell
from mobilerl.envs.phone.shell.android.system import PROPERTIES

REBOOT_S = 1.0
"""Time for which a rebooting phone refuses connections."""
_NAMES = "".join(f"ro.product.{n}={PROPERTIES[f'ro.product.{n}']};" for n in ("name", "model", "device"))


class ServedPhone:
    """One phone on one port. Its commands run one after the other.

    `keys` are those of the hosts that may connect (None: all hosts). With `faults` some commands fail as planned. A
    phone that has crashed does not return, and sets `crashed`.
    """

    banner = f"device::{_NAMES}"

    def __init__(
        self,
        phone: Phone,
        port: int,
        host: str = "127.0.0.1",
        keys: tuple[PublicKey, ...] | None = None,
        faults: FaultPlan | None = None,
    ) -> None:
        self.phone, self.host, self.port, self.keys, self.faults = phone, host, port, keys, faults
        self.reboots = 0
        self.crashed = asyncio.Event()
        self.shell = Shell(phone)
        self.exclusive = OneAtATime()
        """Runs work while nothing else touches the phone."""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._absence: asyncio.Task[None] | None = None

    @property
    def serial(self) -> str:
        return f"{self.host}:{self.port}"

    async def start(self) -> None:
        """Starts to listen; port 0 selects a free one. Raises OSError if the port is taken."""
        self._server = await asyncio.start_server(self._accept, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuses new hosts and disconnects the others. The phone keeps its state."""
        if self._absence is not None and self._absence is not asyncio.current_task():
            self._absence.cancel()
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def reboot(self) -> None:
        """Goes offline for `REBOOT_S`, and returns at the home screen with files and settings unchanged."""
        self.reboots += 1
        self._leave(REBOOT_S, boot=True)

    def die(self) -> None:
        """Ends the phone's process, as seen from outside."""
        self._leave(None)

    def _leave(self, seconds: float | None, boot: bool = False) -> None:
        """Disconnects all hosts, and returns after `seconds` (None: never)."""
        if self._absence is None or self._absence.done():
            self._absence = asyncio.create_task(self._be_away(seconds, boot))

    async def _be_away(self, seconds: float | None, boot: bool) -> None:
        await self.stop()
        if seconds is None:
            self.crashed.set()
            return
        if boot:
            await self.exclusive(self.phone.boot)
        await asyncio.sleep(seconds)
        try:
            await self.start()
        except OSError as error:  # the port was taken
            logging.getLogger(__name__).error("%s does not come back: %s", self.serial, error)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(asyncio.CancelledError):
                await Connection(self, reader, writer).serve()
        finally:
            self._connections.discard(task)

    async def run_line(self, line: str, session: Session | None = None) -> Result:
        """Runs a command line and returns its result, unless the fault plan prevents it."""
        fault, boot = await self.before(line), self.phone.boot_id
        result = await self.exclusive(lambda: self.shell.run(line, session))
        if self.phone.boot_id != boot:  # the line contained `reboot`
            self.reboots += 1
            self._leave(REBOOT_S)
            await _never()
        if fault is Fault.HANG:
            await _never()
        return Result(spoil(fault, result.stdout), result.stderr, result.exit_code)

    async def before(self, what: str) -> Fault | None:
        """Draws the fault of the next command and applies what precedes the command. May never return."""
        fault = self.faults.next(what) if self.faults is not None else None
        if self.faults is None or fault is None:
            return None
        settings = self.faults.settings
        if fault is Fault.SLOW:
            await asyncio.sleep(settings.slow_s)
        elif fault is Fault.REBOOT:
            self.reboot()
            await _never()
        elif fault in (Fault.OFFLINE, Fault.CRASH):
            self._leave(settings.offline_s if fault is Fault.OFFLINE else None)
            await _never()
        elif fault is Fault.HANG and not self.faults.carried_out():
            await _never()
        return fault


async def _never() -> None:
    """Waits until the host hangs up or the phone disconnects it."""
    await asyncio.Event().wait()
