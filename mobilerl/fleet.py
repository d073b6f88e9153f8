"""From a recipe's [fleet] to devices: embedded phones, containers, or whatever adb reaches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from envs.base import Devices
from envs.phone.env import PhoneEnv
from envs.pool import DevicePool, FixedDevices, PoolSettings, Provider
from mobilerl.config import ConfigError, FleetSection, Recipe
from mobilerl.setup import make_phones

if TYPE_CHECKING:
    from envs.adb import AdbTransport
    from envs.docker_avd import ContainerSettings, DockerProvider, Engine
    from envs.pool.adb import AdbServer, MakeEnv

ADB_PORT, CONSOLE_PORT = 5555, 5554
"""Within a device's container."""
LEASE_MARGIN_S = 60.0
"""Beyond an episode's own deadline: a lease that lasts longer was forgotten."""


def make_devices(recipe: Recipe, first: int = 0, count: int | None = None, run_dir: Path | None = None) -> Devices:
    """`count` devices (by default all), named by consecutive numbers from `first`. Raises ConfigError.

    The last words of containers that failed go to `run_dir/devices`.
    """
    count = count or recipe.phone.count
    if recipe.fleet.type == "embedded":
        return FixedDevices(make_phones(recipe.phone, count, first=first))
    if find_spec("adbutils") is None:
        raise ConfigError(f"adbutils is not installed: pip install 'mobilerl[{recipe.fleet.type}]'")
    return DevicePool(make_provider(recipe, first, count, run_dir), pool_settings(recipe, count))


def pool_settings(recipe: Recipe, count: int) -> PoolSettings:
    fleet = recipe.fleet
    if fleet.type == "adb":
        spares = max(0, min(fleet.spares, len(fleet.serials) - count))
    else:
        spares = fleet.spares
    return PoolSettings(
        count, spares, boot_s=fleet.boot_s, refresh_s=fleet.refresh_s,
        lease_s=recipe.agent.deadline_s + LEASE_MARGIN_S, check_every_s=fleet.check_every_s,
        max_failures=fleet.max_failures, quarantine_s=fleet.quarantine_s, give_up_s=fleet.give_up_s,
    )  # fmt: skip


def make_provider(recipe: Recipe, first: int, count: int, run_dir: Path | None) -> Provider:
    fleet = recipe.fleet
    if fleet.type == "docker":
        return docker_provider(recipe, run_dir=run_dir, first=first)
    from envs.pool.adb import AdbProvider

    if len(fleet.serials) < first + count:
        cure = f"set phone.count to at most {len(fleet.serials)}, or name more of them"
        raise ConfigError(f"fleet.serials names {len(fleet.serials)} devices, {first + count} are wanted: {cure}")
    serials = fleet.serials[first:] if first else fleet.serials
    return AdbProvider(serials, _make_env(recipe), adb_server(fleet), fleet.reset)


def docker_provider(recipe: Recipe, run_dir: Path | None = None, first: int = 0,
                    owner: str | None = None) -> DockerProvider:  # fmt: skip
    from envs.docker_avd import DockerProvider

    fleet = recipe.fleet
    return DockerProvider(
        container_settings(recipe, run_dir), _make_env(recipe), adb_server(fleet), fleet.reset, fleet.snapshot, owner,
        first,
    )  # fmt: skip


def container_settings(recipe: Recipe, run_dir: Path | None = None) -> ContainerSettings:
    from envs.docker_avd import ContainerSettings

    fleet, phone = recipe.fleet, recipe.phone
    return ContainerSettings(
        image=fleet.image, fleet=fleet.name, hosts=fleet.hosts, adb_port=ADB_PORT,
        console_port=CONSOLE_PORT if fleet.console else 0, publish=fleet.publish, kvm=fleet.kvm,
        privileged=fleet.privileged, memory_mb=fleet.memory_mb, cpus=fleet.cpus,
        # An emulator's screen is its AVD's; what follows its image's name are options of the emulator.
        command=() if fleet.kvm else ("--width", str(phone.width), "--height", str(phone.height)),
        environment=tuple(map(_variable, fleet.environment)),
        log_dir=run_dir / "devices" if run_dir is not None else None,
    )  # fmt: skip


def remove_orphans(recipe: Recipe) -> None:
    """Containers that processes of this machine left when they were killed. Nothing to do for other devices."""
    if recipe.fleet.type == "docker":
        with engines(recipe) as found:
            for engine in found:
                engine.remove_orphans()


@contextmanager
def engines(recipe: Recipe) -> Iterator[list[Engine]]:
    """The Docker engines of the fleet, connected. InfraError when one does not answer."""
    from envs.docker_avd import Engine

    settings = container_settings(recipe)
    found = [Engine(host, settings) for host in settings.hosts]
    with ExitStack() as stack:
        for engine in found:
            engine.connect()
            stack.callback(engine.close)
        yield found


def _variable(given: str) -> tuple[str, str]:
    """`NAME=VALUE`, or `NAME` with this process's own value. Raises ConfigError."""
    name, sign, value = given.partition("=")
    if not sign and name not in os.environ:
        raise ConfigError(f"fleet.environment: {name} is not set here; write {name}=VALUE, or export it")
    return name, value if sign else os.environ[name]


def adb_server(fleet: FleetSection) -> AdbServer:
    from envs.pool.adb import AdbServer

    if not fleet.adb_server:
        return AdbServer()
    host, _, port = fleet.adb_server.rpartition(":")
    return AdbServer(host or "127.0.0.1", int(port))


def _make_env(recipe: Recipe) -> MakeEnv:
    """An environment of the recipe's suite on a device."""
    popups, timeout_s = recipe.phone.popup_rate, recipe.fleet.command_s

    def make(device_id: str, transport: AdbTransport) -> PhoneEnv:
        return PhoneEnv(device_id, popup_rate=popups, transport=transport, timeout_s=timeout_s)

    return make
