"""AndroidWorld in containers of a pool: each is an emulator and the server that sets it up and scores it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from envs.androidworld.access import AdbAccess
from envs.androidworld.client import AndroidWorldClient
from envs.androidworld.env import AndroidWorldEnv
from envs.androidworld.faults import WrongServer
from envs.androidworld.startup import Address, Say, Server, StartupError, Suite, compare, open_server
from envs.androidworld.tasks import APPS
from envs.base import InfraError, MobileEnv, Transport
from envs.docker_avd.provider import ContainerDevice, DockerProvider

_log = logging.getLogger(__name__)
MARGIN_S = 1.0
"""A server is given up this long before the pool gives up its container: then it is said what the server lacks."""


def make_env(device_id: str, transport: Transport, url: str, free_reward: bool = True) -> AndroidWorldEnv:
    """For `DockerProvider`. A server that does not answer is not waited for: the pool puts another in its place."""
    client, access = AndroidWorldClient(url), AdbAccess(transport, APPS)
    return AndroidWorldEnv(device_id, client, access, boot_wait_s=0.0, free_reward=free_reward)


class AndroidWorldContainers:
    """Implements `envs.pool.Provider` on the containers of `containers`, whose `make_env` is the one above.

    A container joins the pool when its server has the tasks, budgets and goals that the first one has: the checks of
    `envs.androidworld.startup`. `boot_s` is how long that may take, and `suite` the instances that are compared. `wrap`
    is put around every environment. Tasks are made of what a server says, so the first container is started before the
    pool (`start_first`), which then gets it as its own; until then `close` removes it.
    """

    def __init__(
        self,
        containers: DockerProvider,
        suite: Suite,
        boot_s: float,
        wrap: Callable[[AndroidWorldEnv], MobileEnv] = lambda env: env,
    ) -> None:
        self.containers, self.suite, self.boot_s, self.wrap = containers, suite, boot_s, wrap
        self._open = False
        self._first: Server | None = None
        self._waiting: ContainerDevice | None = None

    async def start_first(self, say: Say = print) -> Server:
        """The server of place 0, which passed the checks. Raises StartupError, and leaves nothing behind then."""
        try:
            await self.open()
            async with asyncio.timeout(self.boot_s):
                self._waiting = await self._made(0, 0, say)
        except BaseException as error:
            await self.close()
            if isinstance(error, InfraError):
                raise StartupError(f"{error} (the first container; nothing was started)") from error
            if isinstance(error, TimeoutError):
                raise StartupError(
                    f"the first container of {self.containers.settings.image} has not booted within "
                    f"{self.boot_s:g} s: it may need longer, or KVM (fleet.kvm)"
                ) from None
            raise
        assert self._first is not None
        return self._first

    async def open(self) -> None:
        if not self._open:
            await self.containers.open()
            self._open = True

    async def create(self, number: int, generation: int) -> ContainerDevice:
        if number == 0 and self._waiting is not None:
            device, self._waiting = self._waiting, None
        else:
            device = await self._made(number, generation, _log.info)
        device.env = self.wrap(device.env)
        return device

    async def discard(self, number: int, failed: bool = True) -> None:
        if self._open:
            await self.containers.discard(number, failed)

    async def close(self) -> None:
        """May be called again."""
        if self._open:
            self._open, waiting, self._waiting = False, self._waiting, None
            try:
                if waiting is not None:
                    await waiting.destroy()
            finally:
                await self.containers.close()

    async def _made(self, number: int, generation: int, say: Say) -> ContainerDevice:
        until = time.monotonic() + self.boot_s - MARGIN_S
        return await self.containers.create(number, generation, partial(self._check, until=until, say=say))

    async def _check(self, device: ContainerDevice, until: float, say: Say) -> None:
        adb = self.containers.adb
        address = Address(device.http, device.transport.serial, adb.host, adb.port)
        try:
            server = await open_server(address, self.suite, max(until - time.monotonic(), 0.0), say)
            await server.client.close()
            self._first = self._first or server
            compare([self._first, server])
        except StartupError as error:
            raise WrongServer(str(error)) from error
