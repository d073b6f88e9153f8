"""All checks for a recipe, side by side: together they take as long as the slowest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from mobilerl.config import Recipe
from mobilerl.doctor import devices, gpu, machine, packages
from mobilerl.doctor.check import Check, ok, warning
from mobilerl.doctor.model import model
from mobilerl.doctor.needs import Needs
from mobilerl.train.dry_run import available_mb

Work = Callable[[], Check | Iterable[Check]]


def examine(recipe: Recipe, run_dir: Path) -> list[Check]:
    """What this machine has of what the recipe needs, in the order in which one would mend it."""
    needs = Needs.of(recipe)
    fleet, tracking = recipe.fleet, recipe.tracking
    work: list[Work] = [
        machine.python,
        lambda: packages.installed(("local", *needs.extras), packages.requirements(), packages.pins()),
        lambda: packages.engines(needs.extras),
        lambda: gpu.checks(needs.gpus, needs.large_model, gpu.ask(), gpu.cuda_of_torch()),
        lambda: machine.cores(needs.workers),
        lambda: machine.memory(needs.memory_mb, available_mb()),
        lambda: machine.shared_memory(needs.shared_mb),
        lambda: machine.disk(run_dir, needs.disk_mb),
        lambda: machine.open_files(needs.open_files),
        lambda: machine.ports(needs.ports),
        lambda: model(recipe.model, recipe.engine.max_pixels),
        lambda: devices.kvm(needs.kvm),
        lambda: devices.docker(fleet, needs.docker),
        lambda: devices.adb(fleet, needs.adb),
        lambda: wandb(tracking.wandb),
    ]
    with ThreadPoolExecutor(len(work)) as pool:
        done = list(pool.map(_listed, work))
    return [check for checks in done for check in checks]


def _listed(work: Work) -> list[Check]:
    found = work()
    return [found] if isinstance(found, Check) else list(found)


def wandb(mode: str) -> Check:
    """Whether runs can be uploaded."""
    netrc = Path(os.environ.get("NETRC", Path.home() / ".netrc"))
    kept = ""
    with suppress(OSError):
        kept = netrc.read_text(errors="replace")
    key = bool(os.environ.get("WANDB_API_KEY")) or "api.wandb.ai" in kept
    if mode == "online" and not key:
        return warning("wandb key", "none: the run is kept offline, and `wandb sync` uploads it later", "wandb login")
    return ok("wandb key", "there is one") if key else Check("wandb key", "not needed", "none")
