"""AndroidWorld in the containers of a pool: each runs an emulator and the server that sets up and scores its tasks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from mobilerl.envs.androidworld.access import AdbAccess
from mobilerl.envs.androidworld.client import AndroidWorldClient
from mobilerl.envs.androidworld.env import AndroidWorldEnv
from mobilerl.envs.androidworld.faults import WrongServer
from mobilerl.envs.androidworld.startup import Address, Say, Server, StartupError, Suite, compare, open_server
from mobilerl.envs.androidworld.tasks import APPS
from mobilerl.envs.base import InfraError, MobileEnv, Transport
from mobilerl.envs.docker_avd.provider import ContainerDevice, DockerProvider

_log = logging.getLogger(__name__)
MARGIN_S = 1.0
"""How long before the pool's own deadline a check ends, so that its error says what the server lacks."""


def make_env(device_id: str, transport: Transport, url: str, free_reward: bool = True) -> AndroidWorldEnv:
    """For `DockerProvider`. Does not wait for a server that does not answer, because the pool replaces it."""
    client, access = AndroidWorldClient(url), AdbAccess(transport, APPS)
    return AndroidWorldEnv(device_id, client, access, boot_wait_s=0.0, free_reward=free_reward)


class AndroidWorldContainers:
    """Implements `mobilerl.envs.pool.Provider` on the containers of `containers`, whose `make_env` is above.

    A container joins the pool if its server passes the checks of `startup` within `boot_s`, and has
    the tasks, budgets and goals of the first one for the instances of `suite`. `wrap` is applied to every environment.
    Tasks are made from what a server reports, so the first container is started before the pool (`start_first`) and
    later handed to it; until then `close` removes it.
    """

    replaces = True

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
        """Starts and checks place 0, and returns its server. Raises StartupError, leaving nothing behind."""
        try:
            await self.open()
            async with asyncio.timeout(self.boot_s):
                self._waiting = await self._make(0, 0, say)
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
            device = await self._make(number, generation, _log.info)
        device.wrap(self.wrap)
        return device

    def name(self, number: int) -> str:
        return self.containers.name(number)

    async def wait_for_return(self, number: int) -> None:
        await self.containers.wait_for_return(number)

    async def discard(self, number: int, failed: bool = True) -> None:
        if self._open:
            await self.containers.discard(number, failed)

    async def close(self) -> None:
        """May be called repeatedly."""
        if self._open:
            self._open, waiting, self._waiting = False, self._waiting, None
            try:
                if waiting is not None:
                    await waiting.destroy()
            finally:
                await self.containers.close()

    async def _make(self, number: int, generation: int, say: Say) -> ContainerDevice:
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
