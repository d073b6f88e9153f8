"""Phones on TCP ports of this machine, one port each, as emulators have them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from envs.phone.adbd.auth import Authorization
from envs.phone.adbd.connection import Connection
from envs.phone.phone import Phone
from envs.phone.shell import Shell
from envs.phone.shell.system import PROPERTIES

T = TypeVar("T")
REBOOT_S = 1.0
"""How long a rebooting phone refuses connections."""


class ServedPhone:
    """One phone and its port. Commands run one after the other, as on the phone of one process."""

    def __init__(self, phone: Phone, port: int, host: str = "127.0.0.1",
                 authorization: Authorization | None = None) -> None:  # fmt: skip
        self.phone, self.host, self.port, self.authorization = phone, host, port, authorization
        self.reboots = 0
        self._shell = Shell(phone)
        self._turn = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._restart: asyncio.Task[None] | None = None

    @property
    def serial(self) -> str:
        return f"{self.host}:{self.port}"

    async def start(self) -> None:
        """Listens. OSError when the port is taken; port 0 takes any free one."""
        self._server = await asyncio.start_server(self._connected, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuses new hosts and drops those that are connected. The phone's state stays."""
        if self._restart is not None and self._restart is not asyncio.current_task():
            self._restart.cancel()
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def reboot(self) -> None:
        """Off for `REBOOT_S`; then the home screen, with files and settings as they were."""
        self._restart = asyncio.create_task(self._reboot())

    async def _reboot(self) -> None:
        await self.stop()
        self.reboots += 1
        await self.exclusive(self.phone.boot)
        await asyncio.sleep(REBOOT_S)
        try:
            await self.start()
        except OSError as error:  # somebody took the port meanwhile
            logging.getLogger(__name__).error("%s does not come back from its reboot: %s", self.serial, error)

    async def exclusive(self, work: Callable[[], T]) -> T:
        """Runs `work` when nothing else touches the phone. What began is finished, also when its host leaves."""
        return await asyncio.shield(asyncio.ensure_future(self._alone(work)))

    async def _alone(self, work: Callable[[], T]) -> T:
        async with self._turn:
            return await asyncio.to_thread(work)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        names = "".join(f"ro.product.{n}={PROPERTIES[f'ro.product.{n}']};" for n in ("name", "model", "device"))
        connection = Connection(self._shell, self.exclusive, self.authorization, f"device::{names}", self.reboot,
                                reader, writer)  # fmt: skip
        try:
            with suppress(asyncio.CancelledError):
                await connection.serve()
        finally:
            self._connections.discard(task)


class PhoneServer:
    """Several phones, started and stopped together."""

    def __init__(self, phones: Sequence[ServedPhone]) -> None:
        self.phones = tuple(phones)

    async def __aenter__(self) -> PhoneServer:
        try:
            for phone in self.phones:
                await phone.start()
        except OSError:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await asyncio.gather(*(phone.stop() for phone in self.phones))
