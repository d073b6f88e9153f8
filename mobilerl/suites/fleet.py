"""Devices of a recipe's [fleet]: embedded phones, containers, or devices that are already connected to adb.

Each `fleet.type` is a class in this module and an entry of `FLEETS`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.config import ConfigError, FleetSection, Recipe
from mobilerl.envs.base import Devices, InfraError, MobileEnv, Transport
from mobilerl.envs.claims import Claim, run_name
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.transport import InProcessTransport
from mobilerl.envs.pool import DevicePool, FixedDevices, PoolSettings, Provider
from mobilerl.envs.serials import address_of, is_serial
from mobilerl.suites.base import make_suite
from mobilerl.suites.phone.training import make_phones
from mobilerl.system.installed import is_installed

if TYPE_CHECKING:
    from mobilerl.envs.docker_avd import ContainerSettings, DockerProvider, Engine

log = logging.getLogger(__name__)
CONSOLE_PORT, HTTP_PORT = 5554, 5000
"""Ports of the emulator console and of AndroidWorld's server within a container."""
LEASE_MARGIN_S = 60.0
"""Seconds beyond an episode's deadline after which a lease counts as forgotten."""


@dataclass(frozen=True, slots=True)
class Part:
    """A process's share of a run's devices if `of` processes share them. No device is in two parts."""

    index: int = 0
    of: int = 1

    def among(self, numbers: range) -> range:
        count = len(numbers)
        return numbers[count * self.index // self.of : count * (self.index + 1) // self.of]


# --- types of fleets ---------------------------------------------------------------------------------------------


class FleetType:
    """Base class of fleet types, whose devices are leased from a pool."""

    extra = ""
    """Extra of the mobilerl package that the fleet needs."""
    packages: tuple[str, ...] = ()
    in_process = False
    starts_containers = False

    def spares(self, fleet: FleetSection, count: int) -> int:
        """Number of devices of a run beyond `count`. Raises ConfigError if there are fewer than `count`."""
        return fleet.spares

    def describe(self, recipe: Recipe, count: int) -> str:
        """`count` devices in words."""
        raise NotImplementedError

    def transports(self, recipe: Recipe) -> dict[str, Transport]:
        """The run's devices, spares included, that can be asked before it starts, by name."""
        return {}

    def claim(self, recipe: Recipe, claim: Claim) -> None:
        """Claims all devices of a run. Raises ConfigError if another run uses one, and InfraError."""

    def provider(self, recipe: Recipe, numbers: Sequence[int], run_dir: Path | None, claim: Claim) -> Provider:
        """Makes a provider of the run's devices with these numbers."""
        raise NotImplementedError

    def devices(self, recipe: Recipe, leased: range, spares: range, run_dir: Path | None, claim: Claim) -> Devices:
        """Makes a pool of devices; `leased` and `spares` are their numbers among the run's devices."""
        provider = self.provider(recipe, [*leased, *spares], run_dir, claim)
        return DevicePool(provider, pool_settings(recipe, len(leased), len(spares)))


class EmbeddedFleet(FleetType):
    """Embedded phones in this process."""

    in_process = True

    def spares(self, fleet: FleetSection, count: int) -> int:
        return 0

    def describe(self, recipe: Recipe, count: int) -> str:
        return f"{count} embedded phones"

    def transports(self, recipe: Recipe) -> dict[str, Transport]:
        name = "the embedded phones"  # which all have the same apps
        return {name: InProcessTransport(Phone(APPS, recipe.phone.width, recipe.phone.height), name)}

    def devices(self, recipe: Recipe, leased: range, spares: range, run_dir: Path | None, claim: Claim) -> Devices:
        return FixedDevices(make_phones(recipe.phone, len(leased), first=leased.start, training=True))


class DockerFleet(FleetType):
    """Containers that the run starts and removes."""

    extra, packages, starts_containers = "docker", ("docker", "adbutils"), True

    def describe(self, recipe: Recipe, count: int) -> str:
        where = f" on {', '.join(hosts)}" if (hosts := [host for host in recipe.fleet.hosts if host]) else ""
        return f"{count} containers of {recipe.fleet.image}{where}"

    def provider(self, recipe: Recipe, numbers: Sequence[int], run_dir: Path | None, claim: Claim) -> Provider:
        return docker_provider(recipe, run_dir, numbers, claim=claim)

    def claim(self, recipe: Recipe, claim: Claim) -> None:
        with engines(recipe) as found:
            for engine in found:
                engine.claim(claim)


class AdbFleet(FleetType):
    """Devices that are already running."""

    extra, packages = "adb", ("adbutils",)

    def describe(self, recipe: Recipe, count: int) -> str:
        return f"{count} adb devices: {', '.join(recipe.fleet.serials[:count])}"

    def spares(self, fleet: FleetSection, count: int) -> int:
        if len(fleet.serials) < count:
            raise ConfigError(
                f"fleet.serials names {len(fleet.serials)} devices, {count} are wanted: name more of them"
            )
        return min(fleet.spares, len(fleet.serials) - count)

    def transports(self, recipe: Recipe) -> dict[str, Transport]:
        from mobilerl.envs.pool.adb import AdbServer

        count = recipe.fleet.count
        used = recipe.fleet.serials[: count + self.spares(recipe.fleet, count)]
        return {serial: AdbServer().transport(serial) for serial in used}

    def provider(self, recipe: Recipe, numbers: Sequence[int], run_dir: Path | None, claim: Claim) -> Provider:
        from mobilerl.envs.pool.adb import AdbProvider, AdbServer

        serials = [recipe.fleet.serials[number] for number in numbers]
        return AdbProvider(serials, make_suite(recipe).env_factory(), AdbServer(), recipe.fleet.reset, claim)

    def claim(self, recipe: Recipe, claim: Claim) -> None:
        from mobilerl.envs.pool.adb import AdbServer, claim_phones

        count = recipe.fleet.count + self.spares(recipe.fleet, recipe.fleet.count)
        claim_phones(claim, map(AdbServer().transport, recipe.fleet.serials[:count]))


class BrowserFleet(FleetType):
    """Pages of one Chromium. They are made in a moment, so none is kept as a spare."""

    extra, packages = "browser", ("playwright",)

    def spares(self, fleet: FleetSection, count: int) -> int:
        return 0

    def describe(self, recipe: Recipe, count: int) -> str:
        return f"{count} pages of Chromium"

    def provider(self, recipe: Recipe, numbers: Sequence[int], run_dir: Path | None, claim: Claim) -> Provider:
        from mobilerl.envs.browser.chromium import Chromium
        from mobilerl.envs.browser.pool import BrowserProvider

        suite = make_suite(recipe)
        assert hasattr(suite, "web")  # as the recipe checks (`SuiteBase.fleets`)
        return BrowserProvider(numbers, Chromium(suite.web(), recipe.fleet.program), suite.env_factory())


FLEETS: dict[str, FleetType] = {
    "embedded": EmbeddedFleet(),
    "docker": DockerFleet(),
    "adb": AdbFleet(),
    "browser": BrowserFleet(),
}
"""Fleet types by `fleet.type`."""


def fleet_type(fleet: FleetSection) -> FleetType:
    return FLEETS[fleet.type]


# --- devices -----------------------------------------------------------------------------------------------------


def make_devices(recipe: Recipe, run_dir: Path | None = None, part: Part | None = None) -> Devices:
    """Makes the recipe's devices, or `part` of them. Raises ConfigError if they cannot be used.

    Without `part` they are claimed for this run while they are open; the processes that share them rely on
    `claimed_devices` in the one that started them. Logs of containers that failed are written to `run_dir/devices`.
    """
    claim = Claim() if part else Claim(run_name(run_dir), ConfigError)
    part, count = part or Part(), recipe.fleet.count
    check_packages(recipe.fleet)
    leased = part.among(range(count))
    spares = part.among(range(count, count + fleet_type(recipe.fleet).spares(recipe.fleet, count)))
    return fleet_type(recipe.fleet).devices(recipe, leased, spares, run_dir, claim)


def claimed_devices(recipe: Recipe, run_dir: Path | None) -> Claim:
    """Claims all devices of a run. Raises ConfigError if another run uses one of them."""
    claim = Claim(run_name(run_dir), ConfigError)
    try:
        fleet_type(recipe.fleet).claim(recipe, claim)
    except BaseException:
        claim.release()
        raise
    return claim


def describe_devices(recipe: Recipe, own: Devices | Sequence[MobileEnv] | None = None) -> str:
    """The devices of a run with its spares, in words. `own` are the suite's, if it brings some."""
    if isinstance(own, Sequence):
        return f"{len(own)} of the suite's own"
    fleet = fleet_type(recipe.fleet)
    return fleet.describe(recipe, recipe.fleet.count + fleet.spares(recipe.fleet, recipe.fleet.count))


def check_packages(fleet: FleetSection) -> None:
    """Raises ConfigError if a package that the fleet needs is not installed."""
    for package in fleet_type(fleet).packages:
        if not is_installed(package):
            raise ConfigError(f"fleet.type = \"{fleet.type}\" needs {package}: pip install 'mobilerl[{fleet.type}]'")


def check_devices(recipe: Recipe) -> None:
    """Raises ConfigError for devices that cannot be used, as far as the settings show."""
    fleet = recipe.fleet
    check_packages(fleet)
    for serial in fleet.serials:
        if not is_serial(serial):
            raise ConfigError(
                f"fleet.serials: {serial!r} is no serial; give it as `adb devices` prints it, or HOST:PORT"
            )
    if len(set(map(address_of, fleet.serials))) < len(fleet.serials):
        raise ConfigError("fleet.serials names a device twice: each runs one episode at a time")
    fleet_type(fleet).spares(fleet, recipe.fleet.count)  # raises ConfigError for too few serials
    for given in fleet.environment:
        _variable(given)
    if fleet_type(fleet).starts_containers:
        _check_endpoints(fleet)


def _check_endpoints(fleet: FleetSection) -> None:
    """Raises ConfigError for certificates and contexts that do not exist."""
    from mobilerl.envs.docker_avd.endpoint import endpoint

    try:
        found = [endpoint(host, fleet.tls) for host in fleet.hosts]
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if fleet.tls and not any(engine.certificates for engine in found):
        raise ConfigError("fleet.tls is for engines at tcp://, and fleet.hosts names none")


def pool_settings(recipe: Recipe, leases: int, spares: int) -> PoolSettings:
    fleet, lease_s = recipe.fleet, recipe.agent.deadline_s + LEASE_MARGIN_S
    return PoolSettings(leases, spares, fleet.boot_s, fleet.refresh_s, lease_s, give_up_s=fleet.give_up_s)


# --- containers --------------------------------------------------------------------------------------------------


def docker_provider(
    recipe: Recipe,
    run_dir: Path | None = None,
    numbers: Sequence[int] = (),
    owner: str | None = None,
    claim: Claim | None = None,
) -> DockerProvider:
    """Makes a provider of the containers with these `numbers` in the fleet, or of all without any."""
    from mobilerl.envs.docker_avd import DockerProvider
    from mobilerl.envs.pool.adb import AdbServer

    fleet, make_env = recipe.fleet, make_suite(recipe).env_factory()
    settings = container_settings(recipe, run_dir)
    return DockerProvider(
        settings, make_env, AdbServer(), fleet.reset, owner, numbers, claim or Claim(run_name(run_dir), ConfigError)
    )


def container_settings(recipe: Recipe, run_dir: Path | None = None) -> ContainerSettings:
    from mobilerl.envs.docker_avd import ContainerSettings

    fleet, phone, suite = recipe.fleet, recipe.phone, make_suite(recipe)
    with_server, with_console = suite.has_server, getattr(suite, "has_console", False)
    same = ("image", "hosts", "tls", "publish", "kvm", "memory_mb", "cpus")
    return ContainerSettings(
        fleet=fleet.name,
        console_port=CONSOLE_PORT if fleet.reset == "snapshot" or with_console else 0,
        env_has_console=with_console,
        http_port=HTTP_PORT if with_server else 0,
        # An emulator has its AVD's screen size, and its image takes arguments as options of the emulator.
        command=() if fleet.kvm or with_server else ("--width", str(phone.width), "--height", str(phone.height)),
        environment=tuple(map(_variable, fleet.environment)),
        log_dir=run_dir / "devices" if run_dir is not None else None,
        **{name: getattr(fleet, name) for name in same},
    )


def remove_orphans(recipe: Recipe) -> None:
    """Removes containers that killed processes of this machine left behind; does nothing for other devices.

    It is called at the end of a run, which must not fail because of it; the next run removes the rest.
    """
    if not fleet_type(recipe.fleet).starts_containers:
        return
    for host in recipe.fleet.hosts:
        try:
            with engines(recipe, [host]) as (engine,):
                engine.remove_orphans()
        except InfraError as error:
            log.info("containers may be left: %s", error)


@contextmanager
def engines(recipe: Recipe, hosts: Sequence[str] = ()) -> Iterator[list[Engine]]:
    """Connects to the fleet's Docker engines, or those at `hosts`. Raises InfraError if one does not answer."""
    from mobilerl.envs.docker_avd import Engine

    settings = container_settings(recipe)
    found = [Engine(host, settings) for host in hosts or settings.hosts]
    with ExitStack() as stack:
        for engine in found:
            engine.connect()
            stack.callback(engine.close)
        yield found


def _variable(given: str) -> tuple[str, str]:
    """Reads `NAME=VALUE`, or `NAME` with this process's value. Raises ConfigError if that has none."""
    name, sign, value = given.partition("=")
    if not sign and name not in os.environ:
        raise ConfigError(f"fleet.environment: {name} is not set here; write {name}=VALUE, or export it")
    return name, value if sign else os.environ[name]
