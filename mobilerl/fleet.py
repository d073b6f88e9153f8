"""From a recipe's [fleet] to devices: embedded phones, containers, or whatever adb reaches."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from envs.base import Devices, InfraError, MobileEnv
from envs.phone.env import PhoneEnv
from envs.pool import DevicePool, FixedDevices, PoolSettings, Provider
from mobilerl.config import ConfigError, FleetSection, Recipe
from mobilerl.setup import make_phones

if TYPE_CHECKING:
    from envs.adb import AdbTransport
    from envs.androidworld.containers import AndroidWorldContainers
    from envs.androidworld.startup import Suite
    from envs.docker_avd import ContainerSettings, DockerProvider, Engine
    from envs.pool.adb import AdbServer

log = logging.getLogger(__name__)
PACKAGES = {"docker": ("docker", "adbutils"), "adb": ("adbutils",), "embedded": ()}
CONSOLE_PORT = 5554
"""Within a device's container."""
LEASE_MARGIN_S = 60.0
"""Beyond an episode's own deadline: a lease that lasts longer was forgotten."""


@dataclass(frozen=True, slots=True)
class Part:
    """Which devices of a run a process has, when `of` of them share the run's: no device, spares included, is two's."""

    index: int = 0
    of: int = 1

    def among(self, numbers: range) -> range:
        count = len(numbers)
        return numbers[count * self.index // self.of : count * (self.index + 1) // self.of]


def make_devices(recipe: Recipe, run_dir: Path | None = None, part: Part | None = None) -> Devices:
    """The recipe's devices, or `part` of them. Raises ConfigError.

    The last words of containers that failed go to `run_dir/devices`.
    """
    part, count = part or Part(), recipe.phone.count
    leased = part.among(range(count))
    if recipe.fleet.type == "embedded":
        return FixedDevices(make_phones(recipe.phone, len(leased), first=leased.start))
    check_packages(recipe.fleet)
    spares = part.among(range(count, count + spare_devices(recipe)))
    provider = make_provider(recipe, [*leased, *spares], run_dir)
    return DevicePool(provider, pool_settings(recipe, len(leased), len(spares)))


def androidworld_pool(recipe: Recipe, suite: Suite, run_dir: Path | None = None,
                      wrap: Callable[[MobileEnv], MobileEnv] = lambda env: env,
                      ) -> tuple[DevicePool, AndroidWorldContainers]:  # fmt: skip
    """`phone.count` containers with AndroidWorld, and where they come from. Nothing is started yet."""
    from envs.androidworld.containers import AndroidWorldContainers

    check_packages(recipe.fleet)
    containers = AndroidWorldContainers(docker_provider(recipe, run_dir), suite, recipe.fleet.boot_s, wrap)
    return DevicePool(containers, pool_settings(recipe, recipe.phone.count, spare_devices(recipe))), containers


def check_packages(fleet: FleetSection) -> None:
    """Raises ConfigError when what reaches the devices is not installed."""
    for package in PACKAGES[fleet.type]:
        if find_spec(package) is None:
            raise ConfigError(f"fleet.type = \"{fleet.type}\" needs {package}: pip install 'mobilerl[{fleet.type}]'")


def spare_devices(recipe: Recipe) -> int:
    """Those of a run beyond `phone.count`. Raises ConfigError when there are fewer serials than that."""
    fleet, count = recipe.fleet, recipe.phone.count
    if fleet.type == "embedded":
        return 0
    if fleet.type == "docker":
        return fleet.spares
    if len(fleet.serials) < count:
        cure = f"set phone.count to at most {len(fleet.serials)}, or name more of them"
        raise ConfigError(f"fleet.serials names {len(fleet.serials)} devices, {count} are wanted: {cure}")
    return min(fleet.spares, len(fleet.serials) - count)


def pool_settings(recipe: Recipe, leases: int, spares: int) -> PoolSettings:
    fleet = recipe.fleet
    return PoolSettings(
        leases, spares, boot_s=fleet.boot_s, refresh_s=fleet.refresh_s,
        lease_s=recipe.agent.deadline_s + LEASE_MARGIN_S, check_every_s=fleet.check_every_s,
        max_failures=fleet.max_failures, quarantine_s=fleet.quarantine_s, give_up_s=fleet.give_up_s,
    )  # fmt: skip


def make_provider(recipe: Recipe, numbers: Sequence[int], run_dir: Path | None) -> Provider:
    """`numbers`: which of the run's devices are provided."""
    fleet = recipe.fleet
    if fleet.type == "docker":
        return docker_provider(recipe, run_dir, numbers)
    from envs.pool.adb import AdbProvider

    serials = [fleet.serials[number] for number in numbers]
    return AdbProvider(serials, _make_env(recipe), adb_server(fleet), fleet.reset)


def docker_provider(recipe: Recipe, run_dir: Path | None = None, numbers: Sequence[int] = (),
                    owner: str | None = None) -> DockerProvider:  # fmt: skip
    from envs.docker_avd import DockerProvider

    fleet = recipe.fleet
    return DockerProvider(
        container_settings(recipe, run_dir), _make_env(recipe), adb_server(fleet), fleet.reset, fleet.snapshot, owner,
        numbers,
    )  # fmt: skip


def container_settings(recipe: Recipe, run_dir: Path | None = None) -> ContainerSettings:
    from envs.docker_avd import ContainerSettings

    fleet, phone = recipe.fleet, recipe.phone
    with_server = phone.suite == "androidworld"
    return ContainerSettings(
        image=fleet.image, fleet=fleet.name, hosts=fleet.hosts, adb_port=fleet.adb_port,
        console_port=CONSOLE_PORT if fleet.console else 0, http_port=fleet.http_port if with_server else 0,
        publish=fleet.publish, kvm=fleet.kvm, privileged=fleet.privileged, memory_mb=fleet.memory_mb, cpus=fleet.cpus,
        # An emulator's screen is its AVD's; what follows its image's name are options of the emulator.
        command=() if fleet.kvm or with_server else ("--width", str(phone.width), "--height", str(phone.height)),
        environment=tuple(map(_variable, fleet.environment)),
        log_dir=run_dir / "devices" if run_dir is not None else None,
    )  # fmt: skip


def remove_orphans(recipe: Recipe) -> None:
    """Containers that processes of this machine left when they were killed. Nothing to do for other devices.

    For the end of a run, which must not fail of it: the next run removes what stays.
    """
    if recipe.fleet.type != "docker":
        return
    for host in recipe.fleet.hosts:
        try:
            with engines(recipe, [host]) as (engine,):
                engine.remove_orphans()
        except InfraError as error:
            log.info("containers may be left: %s", error)


@contextmanager
def engines(recipe: Recipe, hosts: Sequence[str] = ()) -> Iterator[list[Engine]]:
    """The Docker engines of the fleet, or those of them at `hosts`, connected. InfraError when one does not answer."""
    from envs.docker_avd import Engine

    settings = container_settings(recipe)
    found = [Engine(host, settings) for host in hosts or settings.hosts]
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


def _make_env(recipe: Recipe) -> Callable[..., MobileEnv]:
    """An environment of the recipe's suite on a device."""
    if recipe.phone.suite == "androidworld":
        from envs.androidworld.containers import make_env

        return partial(make_env, free_reward=recipe.plays_free_rewards)
    popups, timeout_s = recipe.phone.popup_rate, recipe.fleet.command_s

    def make(device_id: str, transport: AdbTransport) -> PhoneEnv:
        return PhoneEnv(device_id, popup_rate=popups, transport=transport, timeout_s=timeout_s)

    return make
