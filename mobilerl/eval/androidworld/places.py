"""Where an AndroidWorld evaluation is played: on servers that run already, or on containers that it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from envs.androidworld.address import Address
from envs.androidworld.env import AndroidWorldEnv
from envs.androidworld.startup import Say, Server, Suite, open_servers
from envs.base import Devices, MobileEnv
from envs.pool import DevicePool
from mobilerl.config import ConfigError, Recipe
from mobilerl.fleet import androidworld_pool

if TYPE_CHECKING:
    from envs.androidworld.containers import AndroidWorldContainers

Watch = Callable[[AndroidWorldEnv], MobileEnv]
"""Puts what an evaluation notes of an episode around an environment."""


class Places(Protocol):
    """`count` episodes are played at once. Used from one event loop."""

    count: int
    over_adb: bool
    names: tuple[str, ...]
    """Names of servers that stay dead when they die; () where another one takes their place."""

    async def open(
        self, suite: Suite, boot_wait_s: float, say: Say, leftovers: Mapping[str, tuple[str, int]]
    ) -> Server:
        """A server that passed all checks. Raises StartupError. `leftovers`: see `open_servers`."""

    def devices(self, watch: Watch) -> Devices | Sequence[MobileEnv]: ...

    async def close(self) -> None:
        """After `open`, also when the devices were closed already."""


class RunningServers:
    """Servers that somebody else runs; all are checked before anything is played."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = tuple(addresses)
        self.count, self.over_adb = len(self._addresses), bool(self._addresses[0].serial)
        self.names = tuple(address.device_id for address in self._addresses)
        self._servers: list[Server] = []
        self._boot_wait_s = 0.0

    async def open(
        self, suite: Suite, boot_wait_s: float, say: Say, leftovers: Mapping[str, tuple[str, int]]
    ) -> Server:
        self._boot_wait_s = boot_wait_s
        self._servers = await open_servers(self._addresses, suite, boot_wait_s, say, leftovers)
        return self._servers[0]

    def devices(self, watch: Watch) -> Sequence[MobileEnv]:
        return [watch(server.env(self._boot_wait_s)) for server in self._servers]

    async def close(self) -> None:
        await asyncio.gather(*(server.client.close() for server in self._servers))


class StartedContainers:
    """Containers of a recipe's fleet, which exist as long as the evaluation. What one left set up is gone with it."""

    over_adb = True
    names = ()

    def __init__(self, recipe: Recipe, run_dir: Path | None) -> None:
        self.count = recipe.phone.count
        self._recipe, self._run_dir = recipe, run_dir
        self._pool: DevicePool | None = None
        self._containers: AndroidWorldContainers | None = None

    async def open(
        self, suite: Suite, boot_wait_s: float, say: Say, leftovers: Mapping[str, tuple[str, int]]
    ) -> Server:
        self._pool, self._containers = androidworld_pool(self._recipe, suite, self._run_dir)
        return await self._containers.start_first(say)

    def devices(self, watch: Watch) -> Devices:
        assert self._pool is not None and self._containers is not None
        self._containers.wrap = watch
        return self._pool

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()


def make_containers(
    recipe: Recipe, count: int, boot_wait_s: float, deadline_s: float, run_dir: Path | None
) -> StartedContainers:
    """`count` containers as the recipe's [fleet] has them, without spares. Raises ConfigError or ValueError."""
    if count < 1:
        raise ConfigError(f"--fleet is {count}; it must be at least 1")
    if recipe.fleet.type == "adb":
        raise ConfigError('--fleet starts containers, and fleet.type is "adb": give --server for each of these phones')
    recipe.fleet.check_androidworld()
    update = {
        "phone": {"suite": "androidworld", "count": count},
        "fleet": {"type": "docker", "boot_s": boot_wait_s, "spares": 0},
        "agent": {"deadline_s": deadline_s},
        "androidworld": {"free_reward": True},
    }
    sections = {name: getattr(recipe, name).model_copy(update=given) for name, given in update.items()}
    return StartedContainers(recipe.model_copy(update=sections), run_dir)
