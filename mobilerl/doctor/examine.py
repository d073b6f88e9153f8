"""All checks for a recipe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from mobilerl.config import Recipe
from mobilerl.doctor import devices, machine, packages
from mobilerl.doctor.check import Check


def examine(recipe: Recipe) -> Iterator[Check]:
    """What this machine has of what the recipe needs, in the order in which one would fix it."""
    fleet, extras = recipe.fleet, extras_of(recipe)
    verl = recipe.engine.type == "verl"
    elsewhere = bool(recipe.cluster.address or os.environ.get("RAY_ADDRESS"))
    yield machine.python()
    yield from packages.installed(extras, packages.requirements(), packages.pins())
    yield from packages.engines(extras)
    yield machine.gpus(recipe.cluster.gpus_per_node if verl and not elsewhere else 0)
    yield machine.disk(Path("runs"))
    yield machine.kvm(fleet.type == "docker" and fleet.kvm)
    yield from devices.docker(fleet, fleet.type == "docker")
    yield devices.adb(fleet, fleet.type != "embedded")


def extras_of(recipe: Recipe) -> tuple[str, ...]:
    """The extras of the package that the recipe needs."""
    wanted = {
        "local": True,
        "verl": recipe.engine.type == "verl",
        "vllm": recipe.engine.type == "local" and recipe.engine.sampler == "vllm",
        "deepspeed": bool(recipe.sft.deepspeed),
        "docker": recipe.fleet.type == "docker",
        "adb": recipe.fleet.type == "adb",
        "androidworld": recipe.phone.suite == "androidworld",
        "tracking": recipe.tracking.wandb != "off" or recipe.tracking.tensorboard,
    }
    return tuple(name for name, needed in wanted.items() if needed)
