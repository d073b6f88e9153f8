"""What a recipe needs of a machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mobilerl.config import ConfigError, Recipe
from mobilerl.train.cost import disk_total, memory_total, training_cost
from mobilerl.train.model_shape import ModelShape

DISK_MB, MEMORY_MB = 2000.0, 2000.0
"""For a run of the recipes at their defaults, with room to spare: where there is no model to go by."""
SMALL = 100e6
"""Parameters up to which training on a CPU makes sense."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Memory and disk in MiB, counts otherwise. `extras` are those of the package, `local` always among them."""

    extras: tuple[str, ...]
    gpus: int
    docker: bool
    adb: bool
    kvm: bool
    workers: int
    open_files: int
    shared_mb: float
    memory_mb: float
    disk_mb: float
    large_model: bool
    ports: tuple[tuple[int, str], ...]
    """Ports that must be free here, and the setting that says so."""

    @classmethod
    def of(cls, recipe: Recipe) -> Needs:
        verl = recipe.engine.type == "verl"
        elsewhere = bool(recipe.cluster.address or os.environ.get("RAY_ADDRESS"))
        vllm = not verl and recipe.engine.sampler == "vllm"
        fleet, sft = recipe.fleet, recipe.sft
        docker = fleet.type == "docker"
        adb = docker or fleet.type == "adb"
        memory, disk, parameters = _sizes(recipe)
        devices = recipe.phone.count + fleet.spares if adb else 0
        return cls(
            extras=_extras(recipe),
            gpus=recipe.cluster.gpus_per_node if verl and not elsewhere else 0,
            docker=docker, adb=adb, kvm=docker and fleet.kvm,
            workers=recipe.collect.workers if recipe.plays_in_workers else 0,
            open_files=256 + 16 * recipe.collect.workers + 8 * devices + 1024 * vllm + 8192 * verl,
            shared_mb=8192 if verl else 1024 if vllm or sft.processes > 1 else 0,
            memory_mb=memory, disk_mb=disk, large_model=parameters > SMALL,
            ports=_ports(recipe),
        )  # fmt: skip


def _extras(recipe: Recipe) -> tuple[str, ...]:
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


def _sizes(recipe: Recipe) -> tuple[float, float, int]:
    """(memory in MiB, disk in MiB, parameters); defaults without a model that can be read."""
    from mobilerl.train.dry_run import step_budgets

    try:
        shape = ModelShape.of_checkpoint(Path(recipe.model)) if recipe.model else None
    except ConfigError:
        shape = None  # the check of the model says why
    if shape is None:
        return MEMORY_MB, DISK_MB, 0
    items = training_cost(recipe, step_budgets(recipe), shape)
    return memory_total(items), disk_total(items), shape.parameters


def _ports(recipe: Recipe) -> tuple[tuple[int, str], ...]:
    sft = recipe.sft
    if sft.nodes < 2 or sft.node_rank:
        return ()
    first = int(sft.rendezvous.rpartition(":")[2])
    return (first, "sft.rendezvous"), (first + 1, "sft.rendezvous, the port after it")
