"""`mobilerl fleet`: devices in containers that stay up between runs, and what is there of all fleets."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from envs.base import InfraError
from mobilerl.config import ConfigError, Recipe, load_recipe
from mobilerl.fleet import check_packages, docker_provider, engines
from mobilerl.tables import make_console, make_table

if TYPE_CHECKING:
    from envs.docker_avd import DockerProvider, Listed


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "fleet", parents=[common], allow_abbrev=False, help="devices as Docker containers",
        epilog="settings of the recipe can be given as well: --phone.count 16 --fleet.image mobilerl-phone",
    )  # fmt: skip
    parser.add_argument("what", choices=("up", "status", "down"),
                        help="up: start phone.count devices and leave them running; status: list every device; "
                        "down: remove the devices of fleet.name")  # fmt: skip
    parser.add_argument("--config", type=Path, metavar="RECIPE.toml")
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    recipe = load_recipe(args.config, ["--fleet.type", "docker", *settings])
    if recipe.fleet.type != "docker":
        raise ConfigError('fleet: only containers can be started here; leave fleet.type = "docker"')
    check_packages(recipe.fleet)
    console = make_console()
    work = {"up": up, "status": status, "down": down}[args.what]
    return work(recipe, console)


def up(recipe: Recipe, console: Console) -> int:
    """Starts what is missing of the fleet; returns 1 when a device did not start."""
    there, started, failed = asyncio.run(_start_missing(recipe))
    try:
        status(recipe, console)
    except InfraError as error:  # an engine that has gone meanwhile: the others' devices are there
        failed.append(str(error))
    for line in failed:
        console.print(line, style="red", markup=False, soft_wrap=True, highlight=False)
    serials = [*there, *started]
    console.print(f"{len(started)} started" + ("; train on them with:" if serials else ""), highlight=False)
    if serials:
        named = ",".join(f'"{s}"' for s in serials)
        console.print(f"  --fleet.type adb --fleet.serials '[{named}]' --phone.count {len(serials)}",
                      markup=False, highlight=False, soft_wrap=True)  # fmt: skip
    return 1 if failed else 0


async def _start_missing(recipe: Recipe) -> tuple[list[str], list[str], list[str]]:
    """The serials of the devices that were there, those of the ones started, and a line for each that did not start."""
    from envs.docker_avd import DETACHED

    provider = docker_provider(recipe, owner=DETACHED)
    await provider.open()
    try:
        there = await _own(provider)
        missing = sorted(set(range(recipe.phone.count)) - {c.place for c in there})
        started, failed = await _started(provider, missing, recipe.fleet.boot_s)
        return [c.serial for c in there if c.serial], started, failed
    finally:
        await provider.close()  # the connections: the containers stay


async def _own(provider: DockerProvider) -> list[Listed]:
    """The fleet's running devices. Raises ConfigError when a run uses the fleet's name: its devices end with it and
    have the same numbers, and `fleet down` would remove them as well."""
    listed = await asyncio.to_thread(provider.listed)
    if others := sorted({c.owner for c in listed if c.owner != provider.owner}):
        name = provider.settings.fleet
        raise ConfigError(
            f"the fleet {name} has containers of a run ({', '.join(others)}): set another --fleet.name, or, when that "
            f"run has ended, remove them with `mobilerl fleet down --fleet.name {name}`"
        )
    return [c for c in listed if c.running]


async def _started(provider: DockerProvider, places: Sequence[int], boot_s: float) -> tuple[list[str], list[str]]:
    """Serials, and a line for each device that did not start. None is still starting when this ends, whatever the
    others met with."""
    ends = await asyncio.gather(*(_start(provider, place, boot_s) for place in places), return_exceptions=True)
    serials, failed = [], []
    for end in ends:
        if isinstance(end, str):
            serials.append(end)
        elif isinstance(end, InfraError):
            failed.append(str(end))
        else:
            raise end
    return serials, failed


async def _start(provider: DockerProvider, place: int, boot_s: float) -> str:
    """The device's serial. Raises InfraError that says all that went wrong."""
    try:
        async with asyncio.timeout(boot_s):
            await provider.discard(place)  # what has stopped
            return (await provider.create(place, 0)).transport.serial
    except (InfraError, TimeoutError) as error:
        said = f"device {place}: {str(error) or f'it did not boot within {boot_s:g} s'}"
    try:
        await provider.discard(place)
    except InfraError as error:
        said += f"; what is left of it stays: {error}"
    raise InfraError(said)


def status(recipe: Recipe, console: Console) -> int:
    """Every container with our label, of every fleet, on the recipe's engines."""
    table = make_table("fleet", "device", "state", "owner", "adb", "engine", "image", whole="adb")
    with engines(recipe) as found:
        containers = [c for engine in found for c in engine.listed(everything=True)]
    for c in containers:
        table.add_row(c.fleet, str(c.place), c.state, c.owner, c.serial or "--", c.engine or "local", c.image)
    console.print(table)
    return 0


def down(recipe: Recipe, console: Console) -> int:
    with engines(recipe) as found:
        removed = sum(engine.remove({}) for engine in found)
    console.print(f"{removed} containers of the fleet {recipe.fleet.name} removed", highlight=False)
    return 0
