"""Checks of the model to start from, and of the disks for it and for the run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from mobilerl.config import ConfigError, Recipe
from mobilerl.doctor.check import Check, broken
from mobilerl.models.checkpoint_folder import check_checkpoint
from mobilerl.models.hub import OnHub, is_hub_id, look_up
from mobilerl.training.disk import disk, existing, size

FREE_SPACE = "free some space, or use another disk"


def model(path: str) -> tuple[Check, OnHub | None]:
    """Checks the checkpoint to start from, as far as its files' names show; also returns what the Hub has of it."""
    if not path:
        return Check("model", "not needed", "none is given: --model DIR|ORG/NAME"), None
    if is_hub_id(path) and find_spec("huggingface_hub") is None:
        detail = f"{path} on the Hub cannot be checked, huggingface_hub is not installed"
        return broken("model", True, detail, "pip install 'mobilerl[local]'"), None
    found = None
    try:
        if is_hub_id(path):
            found = look_up(path)
        else:
            check_checkpoint(path)
    except ConfigError as error:
        reason, _, fix = str(error).removeprefix("--model ").partition("; ")
        return broken("model", True, reason, fix or "correct --model, or omit it for the recipe's own model"), None
    if found is None:
        return Check("model", "ok", path), None
    where = "in the Hub's cache" if found.cached else f"on the Hub, {size(found.download)} to download"
    return Check("model", "ok", f"{path}, {where}"), found


def disks(recipe: Recipe, run_dir: Path, found: OnHub | None) -> Iterator[Check]:
    """Checks the disks of the run directory and, for a model that would be downloaded, of the Hub's cache."""
    weights = None
    if found is not None and found.cached is None:
        from huggingface_hub.constants import HF_HUB_CACHE

        weights = found.weights
        place = existing(Path(HF_HUB_CACHE))
        free = shutil.disk_usage(place).free
        detail = f"{size(found.download)} to download, {size(free)} free in {place}"
        fix = "" if found.download <= free else f"{FREE_SPACE} (HF_HOME)"
        yield Check("disk for the model", "failed" if fix else "ok", detail, fix)
    space = disk(recipe, run_dir, weights)
    if not os.access(space.place, os.W_OK):
        yield broken("disk", True, f"no permission to write in {space.place}", "choose another --run-dir")
    elif not space.ok:
        yield broken("disk", True, str(space), f"{FREE_SPACE} (--run-dir)")
    else:
        yield Check("disk", "ok", str(space))
