"""Servers of an AndroidWorld evaluation: running ones, or containers that it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mobilerl.config import AndroidWorldSuiteSection, ConfigError, Recipe
from mobilerl.config.suite import check_androidworld_fleet
from mobilerl.envs.androidworld.containers import make_env
from mobilerl.envs.androidworld.env import AndroidWorldEnv
from mobilerl.envs.androidworld.startup import Address, Say, Server, Suite, open_servers
from mobilerl.envs.base import Devices, MobileEnv
from mobilerl.envs.claims import run_name
from mobilerl.envs.pool import DevicePool
from mobilerl.suites.androidworld.training import container_pool

DEADLINE_S = 3600.0
"""Time limit of an episode, in seconds."""
Watch = Callable[[AndroidWorldEnv], MobileEnv]
"""Wraps an environment so that the evaluation can observe its episodes."""


class RunningServers:
    """Servers that are already running. All are checked before anything runs on them. Use it from one event loop."""

    def __init__(self, addresses: Sequence[Address], out: Path | None = None) -> None:
        self._addresses, self._user = tuple(addresses), run_name(out)
        self.count, self.over_adb = len(self._addresses), bool(self._addresses[0].serial)
        self.names = tuple(address.device_id for address in self._addresses)
        """Names of servers that are not replaced when they die; () if they are."""
        self._servers: list[Server] = []

    async def open(
        self, suite: Suite, boot_wait_s: float, say: Say, leftovers: Mapping[str, tuple[str, int]], watch: Watch
    ) -> tuple[Server, Devices | Sequence[MobileEnv]]:
        """Returns a checked server, and the devices. Raises StartupError. For `leftovers` see `open_servers`."""
        self._servers = await open_servers(self._addresses, suite, boot_wait_s, say, leftovers, self._user)
        return self._servers[0], [watch(server.env(boot_wait_s)) for server in self._servers]

    async def close(self) -> None:
        """Closes the connections. Call it after `open`, even if the devices are closed already."""
        await asyncio.gather(*(server.client.close() for server in self._servers))


class StartedContainers:
    """Servers in `count` containers of a recipe's fleet, without spares, that live as long as the evaluation.

    Raises ConfigError or ValueError if the fleet cannot run AndroidWorld.
    """

    over_adb = True
    names: tuple[str, ...] = ()

    def __init__(self, recipe: Recipe, count: int, boot_wait_s: float, out: Path | None) -> None:
        if count < 1:
            raise ConfigError(f"--fleet is {count}; it must be at least 1")
        if recipe.fleet.serials:
            raise ConfigError("--fleet starts containers, and fleet.serials are phones: give --server for each of them")
        check_androidworld_fleet(recipe.fleet)
        fleet = {"type": "docker", "count": count, "boot_s": boot_wait_s, "spares": 0}
        self._recipe = recipe.model_copy(
            update={
                "suite": AndroidWorldSuiteSection(),
                "fleet": recipe.fleet.model_copy(update=fleet),
                "agent": recipe.agent.model_copy(update={"deadline_s": DEADLINE_S}),
            }
        )
        self.count, self._out = count, out
        self._pool: DevicePool | None = None

    async def open(
        self, suite: Suite, boot_wait_s: float, say: Say, leftovers: Mapping[str, tuple[str, int]], watch: Watch
    ) -> tuple[Server, Devices | Sequence[MobileEnv]]:
        self._pool, containers = container_pool(self._recipe, suite, self._out, watch)
        containers.containers.make_env = make_env  # also plays instances with a free reward
        return await containers.start_first(say), self._pool

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()


Servers = RunningServers | StartedContainers
