"""`mobilerl fleet`: devices in containers that stay up between runs, and what is there of all fleets."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

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
    started, failed = asyncio.run(_start_missing(recipe))
    for line in failed:
        console.print(f"[red]{line}[/red]", soft_wrap=True, highlight=False)
    status(recipe, console)
    serials = ",".join(f'"{s}"' for s in _serials(recipe))
    console.print(f"{started} started; train on them with:", highlight=False)
    console.print(f"  --fleet.type adb --fleet.serials '[{serials}]' --phone.count {len(_serials(recipe))}",
                  markup=False, highlight=False, soft_wrap=True)  # fmt: skip
    return 1 if failed else 0


async def _start_missing(recipe: Recipe) -> tuple[int, list[str]]:
    """How many were started, and a line for each that did not start."""
    from envs.docker_avd import DETACHED

    provider = docker_provider(recipe, owner=DETACHED)
    await provider.open()
    try:
        return await _started(recipe, provider)
    finally:
        await provider.close()  # the connections: the containers stay


async def _started(recipe: Recipe, provider: DockerProvider) -> tuple[int, list[str]]:
    from envs.base import InfraError

    there = {container.place for container in await asyncio.to_thread(provider.listed) if container.running}
    missing = [place for place in range(recipe.phone.count) if place not in there]

    async def start(place: int) -> str:
        try:
            async with asyncio.timeout(recipe.fleet.boot_s):
                await provider.discard(place)  # what has stopped
                await provider.create(place, 0)
            return ""
        except (InfraError, TimeoutError) as error:
            reason = str(error) or f"it did not boot within {recipe.fleet.boot_s:g} s"
            await provider.discard(place)
            return f"device {place}: {reason}"

    failed = [line for line in await asyncio.gather(*map(start, missing)) if line]
    return len(missing) - len(failed), failed


def status(recipe: Recipe, console: Console) -> int:
    """Every container with our label, of every fleet, on the recipe's engines."""
    table = make_table("fleet", "device", "state", "owner", "adb", "engine", "image", whole="adb")
    for c in _containers(recipe, everything=True):
        table.add_row(c.fleet, str(c.place), c.state, c.owner, c.serial or "--", c.engine or "local", c.image)
    console.print(table)
    return 0


def down(recipe: Recipe, console: Console) -> int:
    with engines(recipe) as found:
        removed = sum(engine.remove({}) for engine in found)
    console.print(f"{removed} containers of the fleet {recipe.fleet.name} removed", highlight=False)
    return 0


def _serials(recipe: Recipe) -> list[str]:
    return [c.serial for c in _containers(recipe) if c.running and c.serial]


def _containers(recipe: Recipe, everything: bool = False) -> list[Listed]:
    with engines(recipe) as found:
        return [c for engine in found for c in engine.listed(everything)]
