"""A pool's devices as containers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from envs.base import Health, InfraError
from envs.console import Console
from envs.docker_avd.engine import OWNER, PLACE, ContainerSettings, Engine, Listed
from envs.docker_avd.owner import DETACHED, this_process
from envs.pool.adb import AdbDevice, AdbServer, MakeEnv, Reset

if TYPE_CHECKING:
    from docker.models.containers import Container


class DockerProvider:
    """Implements `envs.pool.Provider`: one container for each place, on the engines in turn.

    Devices are named by consecutive numbers from `first`.
    """

    def __init__(self, settings: ContainerSettings, make_env: MakeEnv, adb: AdbServer, reset: Reset = "keep",
                 snapshot: str = "default_boot", owner: str | None = None, first: int = 0) -> None:  # fmt: skip
        self.settings, self.make_env, self.adb = settings, make_env, adb
        self.reset, self.snapshot, self.first = reset, snapshot, first
        self.owner = owner or this_process()
        self._engines: list[Engine] = []

    async def open(self) -> None:
        """Connects to every engine, checks the image and KVM, and removes what dead owners have left."""
        self._engines = [Engine(host, self.settings) for host in self.settings.hosts]
        for engine in self._engines:
            await asyncio.to_thread(engine.open)

    async def create(self, number: int, generation: int) -> ContainerDevice:
        engine = self._engines[number % len(self._engines)]
        name = f"{self.settings.fleet}-{self.first + number}" + (f".{generation}" if generation else "")
        async with engine.starting:
            container = await asyncio.to_thread(engine.run, self.owner, number)
        ports = await asyncio.to_thread(engine.ports, container)
        device = ContainerDevice(name, engine, container, ports, self)
        await device.booted()
        return device

    def listed(self) -> list[Listed]:
        """The fleet's containers. Blocks."""
        return [container for engine in self._engines for container in engine.listed()]

    async def discard(self, number: int) -> None:
        engine = self._engines[number % len(self._engines)]
        await asyncio.to_thread(engine.remove, {OWNER: self.owner, PLACE: str(number)})

    async def close(self) -> None:
        for engine in self._engines:
            if self.owner != DETACHED:
                await asyncio.to_thread(engine.remove, {OWNER: self.owner})
            engine.close()


class ContainerDevice(AdbDevice):
    """A container, and the device in it."""

    def __init__(self, device_id: str, engine: Engine, container: Container, ports: dict[int, int],
                 provider: DockerProvider) -> None:  # fmt: skip
        settings = provider.settings
        console = Console(engine.address, ports[settings.console_port]) if settings.console_port else None
        transport = provider.adb.transport(f"{engine.address}:{ports[settings.adb_port]}")
        super().__init__(device_id, transport, provider.make_env, provider.reset, provider.snapshot, console)
        self.engine, self.container = engine, container
        self.http = f"http://{engine.address}:{ports[settings.http_port]}" if settings.http_port else ""
        self._failed = False

    async def check(self) -> Health:
        health = await super().check()
        self._failed = not health.ok
        return health

    async def destroy(self) -> None:
        await super().destroy()
        await asyncio.to_thread(self.engine.end, self.container, self.env.device_id, self._failed)
        with suppress(InfraError):
            await asyncio.to_thread(self.transport.disconnect)
