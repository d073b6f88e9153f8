"""`mobilerl fleet`: starts, lists and removes devices in containers that stay up between runs, and checks for them."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from mobilerl.cli.doctor import show
from mobilerl.cli.options import add_config
from mobilerl.config import ConfigError, Recipe, load_recipe
from mobilerl.doctor.check import Check, broken
from mobilerl.envs.base import InfraError
from mobilerl.envs.claims import Claim
from mobilerl.envs.device import Device
from mobilerl.envs.live_device import png_size
from mobilerl.suites.fleet import check_packages, docker_provider, engines, fleet_type
from mobilerl.system.terminal import fit, make_console, make_table

if TYPE_CHECKING:
    from mobilerl.envs.docker_avd import DockerProvider


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "fleet",
        parents=[common],
        allow_abbrev=False,
        help="devices as Docker containers",
        epilog="settings of the recipe can be given as well: --fleet.count 16 --fleet.image mobilerl-phone",
    )
    parser.add_argument(
        "what",
        choices=("check", "up", "status", "down"),
        help="check: what this machine lacks for the fleet, and boot one device; up: start fleet.count devices and "
        "leave them running; status: list every device; down: remove the devices of fleet.name",
    )
    parser.add_argument("--no-boot", action="store_true", help="check without booting a device")
    add_config(parser)
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    recipe = load_recipe(args.config, settings, ["--fleet.type", "docker"], command="fleet")
    if not fleet_type(recipe.fleet).starts_containers:
        raise ConfigError('fleet: only containers can be started here; leave fleet.type = "docker"')
    if args.what == "check":
        return check(recipe, boot=not args.no_boot)
    if args.no_boot:
        raise ConfigError("--no-boot is for `mobilerl fleet check`")
    check_packages(recipe.fleet)
    return {"up": up, "status": status, "down": down}[args.what](recipe, make_console())


def check(recipe: Recipe, boot: bool) -> int:
    """Checks KVM, engines and adb and, if nothing has failed, boots a device. Returns 1 if anything has failed."""
    from mobilerl.doctor.examine import devices

    found = list(devices(recipe.fleet))
    if boot and any(one.state == "failed" for one in found):
        found.append(Check("boot", "not needed", "not tried before the above is fixed"))
    elif boot:
        found.append(asyncio.run(_check_boot(recipe)))
    return show(found, "the fleet")


async def _check_boot(recipe: Recipe) -> Check:
    """Boots a device of a fleet of its own, reads its screen, and removes it."""
    fleet = recipe.fleet.model_copy(update={"name": f"{recipe.fleet.name[:40]}-check-{os.getpid()}"})
    provider, began = docker_provider(recipe.model_copy(update={"fleet": fleet})), time.monotonic()
    try:
        await provider.open()
        try:
            async with asyncio.timeout(fleet.boot_s):
                device = await provider.create(0, 0)
            seconds = time.monotonic() - began
            width, height = png_size(await asyncio.to_thread(Device(device.transport).screenshot))
            await device.destroy()
        finally:
            await provider.close()
    except (InfraError, TimeoutError) as error:
        fault = str(error) or f"it did not boot within {fleet.boot_s:g} s"
        run = f"docker run --rm{' --device /dev/kvm' * fleet.kvm} {fleet.image}"
        return broken("boot", True, fault, f"see what `{run}` says, or raise --fleet.boot_s")
    return Check("boot", "ok", f"{seconds:.1f} s, a screen of {width}x{height}; removed again")


def up(recipe: Recipe, console: Console) -> int:
    """Starts the missing devices of the fleet. Returns 1 if one did not start."""
    running, started, failed = asyncio.run(_start_missing(recipe))
    try:
        status(recipe, console)
    except InfraError as error:  # an engine has gone, but the devices of the others are there
        failed.append(str(error))
    for line in failed:
        console.print(fit(line, console.width), style="red", markup=False, soft_wrap=True)
    serials = [*running, *started]
    console.print(f"{len(started)} started" + ("; train on them with:" if serials else ""))
    if serials:
        named = ",".join(f'"{s}"' for s in serials)
        flags = f"--fleet.type adb --fleet.serials '[{named}]' --fleet.count {len(serials)}"
        console.print(f"  {flags}", markup=False, soft_wrap=True)
    return 1 if failed else 0


async def _start_missing(recipe: Recipe) -> tuple[list[str], list[str], list[str]]:
    """Starts missing devices; returns serials of running and of started ones, and a line per device that did not start.

    Raises ConfigError if a run uses the same fleet name: its devices end with it and have the same numbers, and
    `fleet down` would remove them as well.
    """
    from mobilerl.envs.docker_avd import DETACHED

    claim, name = Claim("mobilerl fleet up", ConfigError), recipe.fleet.name
    provider = docker_provider(recipe, owner=DETACHED, claim=claim)
    await provider.open()
    try:
        listed = await asyncio.to_thread(provider.list_containers)
        if others := sorted({c.owner for c in listed if c.owner != provider.owner}):
            raise ConfigError(
                f"the fleet {name} has containers of a run ({', '.join(others)}): set another --fleet.name, or, when "
                f"that run has ended, remove them with `mobilerl fleet down --fleet.name {name}`"
            )
        running = [c for c in listed if c.running]
        missing = sorted(set(range(recipe.fleet.count)) - {c.place for c in running})
        starting = (_start(provider, place, recipe.fleet.boot_s) for place in missing)
        # Wait for all of them, since none may still be starting when this ends.
        ends = await asyncio.gather(*starting, return_exceptions=True)
    finally:
        await provider.close()  # closes the connections; the containers stay
    if unexpected := [end for end in ends if not isinstance(end, str | InfraError)]:
        raise unexpected[0]
    started = [end for end in ends if isinstance(end, str)]
    return [c.serial for c in running if c.serial], started, [str(e) for e in ends if isinstance(e, InfraError)]


async def _start(provider: DockerProvider, place: int, boot_s: float) -> str:
    """Starts a device and returns its serial. Raises InfraError if it does not boot."""
    try:
        async with asyncio.timeout(boot_s):
            await provider.discard(place)  # removes a container that has stopped
            return (await provider.create(place, 0)).transport.serial
    except (InfraError, TimeoutError) as error:
        fault = f"device {place}: {str(error) or f'it did not boot within {boot_s:g} s'}"
    try:
        await provider.discard(place)
    except InfraError as error:
        fault += f"; its container could not be removed: {error}"
    raise InfraError(fault)


def status(recipe: Recipe, console: Console) -> int:
    """Prints the containers of all fleets on the recipe's engines."""
    table = make_table("fleet", "device", "state", "owner", "adb", "engine", "image", whole="adb")
    with engines(recipe) as found:
        containers = [c for engine in found for c in engine.list_containers(everything=True)]
    for c in containers:
        table.add_row(c.fleet, str(c.place), c.state, c.owner, c.serial or "--", c.engine or "local", c.image)
    console.print(table)
    return 0


def down(recipe: Recipe, console: Console) -> int:
    with engines(recipe) as found, Claim("mobilerl fleet down", ConfigError) as claim:
        for engine in found:
            engine.claim(claim)  # a run on this machine keeps its containers
        removed = sum(engine.remove({}) for engine in found)
    console.print(f"{removed} containers of the fleet {recipe.fleet.name} removed")
    return 0
