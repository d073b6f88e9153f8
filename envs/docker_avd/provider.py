"""Containers as the devices of a pool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from mobilerl.envs.base import Health, InfraError, MobileEnv
from mobilerl.envs.claims import Claim
from mobilerl.envs.console import Console
from mobilerl.envs.docker_avd.engine import OWNER, PLACE, ContainerSettings, Engine, Listed, adb_port_of
from mobilerl.envs.docker_avd.owner import DETACHED, this_process
from mobilerl.envs.pool.adb import BOOT_POLL_S, AdbDevice, AdbServer, Reset

if TYPE_CHECKING:
    from docker.models.containers import Container


class DockerProvider:
    """Implements `mobilerl.envs.pool.Provider`: one container for each place, on the engines in turn.

    For a pool with only a part of the fleet, `numbers` gives its places their numbers in the whole fleet. `make_env`
    gets the device id, the transport, with `settings.http_port` the address of the server as `url`, and with
    `settings.env_has_console` the emulator's `console`. `claim` takes the fleet's name on every engine while the
    provider is open.
    """

    replaces = True

    def __init__(
        self,
        settings: ContainerSettings,
        make_env: Callable[..., MobileEnv],
        adb: AdbServer,
        reset: Reset = "keep",
        owner: str | None = None,
        numbers: Sequence[int] = (),
        claim: Claim | None = None,
    ) -> None:
        self.settings, self.make_env, self.adb = settings, make_env, adb
        self.claim = claim or Claim()
        self.reset, self.numbers = reset, numbers
        self.owner = owner or this_process()
        self._engines: list[Engine] = []
        self._runs: dict[int, asyncio.Future[Container]] = {}
        """Running calls to the engine by number: such a call outlives a cancelled `create` and has to be awaited.
        Finished calls are removed, since another event loop may do the cleanup."""
        self._undo: dict[int, Callable[[bool], Awaitable[None]]] = {}
        """By number: removes what an unfinished `create` has made so far. The argument says whether it failed."""

    async def open(self) -> None:
        """Connects to every engine, checks image, KVM and adb server, and removes what dead owners left behind. Raises
        the claim's own error for a fleet that another run uses."""
        engines: list[Engine] = []
        try:
            for host in self.settings.hosts:
                engine = Engine(host, self.settings)
                await asyncio.to_thread(engine.open)
                engines.append(engine)
                await asyncio.to_thread(engine.claim, self.claim)
            await asyncio.to_thread(self.adb.start)
        except BaseException:
            for engine in engines:
                engine.close()
            self.claim.release()
            raise
        self._engines = engines

    async def create(
        self, number: int, generation: int, check: Callable[[ContainerDevice], Awaitable[None]] | None = None
    ) -> ContainerDevice:
        """As in `Provider`. `check` must pass, after the boot, before the device is returned."""
        number = self._in_the_fleet(number)
        engine = self._engines[number % len(self._engines)]
        name = self._name(number) + (f".{generation}" if generation else "")
        async with engine.starting:
            run = self._runs[number] = asyncio.ensure_future(asyncio.to_thread(engine.run, self.owner, number))
            run.add_done_callback(lambda _: self._runs.pop(number, None))
            container = await asyncio.shield(run)
        self._undo[number] = lambda failed: asyncio.to_thread(engine.end, container, name, failed)
        ports = await asyncio.to_thread(engine.ports, container)
        device = ContainerDevice(name, engine, container, ports, self)
        self._undo[number] = device.destroy
        await device.wait_for_boot()
        if check is not None:
            await check(device)
        del self._undo[number]
        return device

    def name(self, number: int) -> str:
        return self._name(self._in_the_fleet(number))

    def _name(self, number: int) -> str:
        return f"{self.settings.fleet}-{number}"

    async def wait_for_return(self, number: int) -> None:
        """Waits forever: a container that failed is removed."""
        await asyncio.get_running_loop().create_future()

    def _in_the_fleet(self, number: int) -> int:
        return self.numbers[number] if self.numbers else number

    def list_containers(self) -> list[Listed]:
        """The fleet's containers. Blocking."""
        return [container for engine in self._engines for container in engine.list_containers()]

    async def discard(self, number: int, failed: bool = True) -> None:
        number = self._in_the_fleet(number)
        engine = self._engines[number % len(self._engines)]
        await self._run_over(number)
        await self._undone(number, failed)
        await asyncio.to_thread(engine.remove, {OWNER: self.owner, PLACE: str(number)})

    async def _run_over(self, number: int) -> None:
        if number in self._runs:
            await asyncio.gather(self._runs[number], return_exceptions=True)

    async def _undone(self, number: int, failed: bool) -> None:
        undo = self._undo.pop(number, None)
        if undo is not None:
            await undo(failed)

    async def close(self) -> None:
        """Cleans up all engines concurrently, so that one that fails or hangs does not affect the others. Raises the
        first failure."""
        engines, self._engines = self._engines, []
        begun = self._runs.keys() | self._undo.keys()
        numbers = [[number for number in begun if number % len(engines) == i] for i in range(len(engines))]
        ends = await asyncio.gather(*map(self._close, engines, numbers), return_exceptions=True)
        self.claim.release()
        if failures := [end for end in ends if end is not None]:
            raise failures[0]

    async def _close(self, engine: Engine, numbers: Sequence[int]) -> None:
        """`numbers` are the places whose `create` has not finished."""
        try:
            for number in numbers:
                await self._run_over(number)
            if self.owner != DETACHED:
                for number in numbers:
                    with suppress(InfraError):  # `remove` below reports what cannot be removed
                        await self._undone(number, failed=True)
                await asyncio.to_thread(engine.remove, {OWNER: self.owner})
        finally:
            engine.close()


class ContainerDevice(AdbDevice):
    """A container, and the device in it. `http` is the address of its server, or "" if it has none."""

    def __init__(
        self, device_id: str, engine: Engine, container: Container, ports: dict[int, int], provider: DockerProvider
    ) -> None:
        settings = provider.settings
        console = Console(engine.address, ports[settings.console_port]) if settings.console_port else None
        transport = provider.adb.transport(f"{engine.address}:{adb_port_of(ports)}")
        self.http = f"http://{engine.address}:{ports[settings.http_port]}" if settings.http_port else ""
        given = {"url": self.http} if self.http else {"console": console} if settings.env_has_console else {}
        make_env = partial(provider.make_env, **given)
        super().__init__(device_id, transport, make_env, provider.reset, console)
        self.engine, self.container = engine, container

    async def wait_for_boot(self) -> None:
        """Raises InfraError when the container stops during the boot."""
        while not await asyncio.to_thread(self._has_booted):
            await asyncio.to_thread(self.engine.check_running, self.container)
            await asyncio.sleep(BOOT_POLL_S)

    async def check(self) -> Health:
        """If there is a server, both it and the device must answer."""
        health = await super().check()
        if health.ok and self.http:
            health = await self.env.health()
        return health

    async def destroy(self, failed: bool = False) -> None:
        """Saves the log of a container that failed."""
        try:
            await asyncio.to_thread(self.engine.end, self.container, self.env.device_id, failed)
        finally:
            # After the container is removed, so that nothing in it can hang any more.
            await super().destroy(failed)
            with suppress(InfraError):
                await asyncio.to_thread(self.transport.disconnect)
