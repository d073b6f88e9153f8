"""Calculates the disk space that a run takes in its directory: checkpoints, and the screens of saved episodes."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mobilerl.config import Recipe
from mobilerl.suites.fleet import fleet_type
from mobilerl.training.run_log import KEPT

GB = 1e9
STEPS = 10
"""Steps of an episode (assumed)."""
SCREEN_BYTES_PER_PIXEL = 0.1
"""Size of a screenshot of an embedded phone, as measured at 360 x 720."""
DEVICE_SCREEN_BYTES = 700e3
"""Size of a screenshot of 1080 x 2400 pixels (assumed)."""
LORA_SHARE = 5e-4
"""Parameters of an adapter per rank, as a share of those of its base: Qwen2.5-VL-3B has this, larger models less."""
STEP_BYTES = 20e3
"""Size of a step in trajectories/*.jsonl (assumed): the screen's XML, the prompt's tokens, the response."""


@dataclass(frozen=True, slots=True)
class Disk:
    """Space in bytes that a run takes, by what takes it, and what is free in the file system of its directory."""

    place: Path
    free: float
    parts: Mapping[str, float]

    @property
    def needed(self) -> float:
        return sum(self.parts.values())

    @property
    def ok(self) -> bool:
        return self.needed <= self.free

    def __str__(self) -> str:
        parts = ", ".join(f"{what} {size(n)}" for what, n in self.parts.items())
        return f"about {size(self.needed)} needed ({parts}), {size(self.free)} free in {self.place}"


def existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(p for p in (folder.absolute(), *folder.absolute().parents) if p.is_dir())


def size(n: float) -> str:
    return f"{n / GB:,.0f} GB" if n >= 10 * GB else f"{n / GB:.1f} GB" if n >= 0.1 * GB else f"{n / 1e6:.0f} MB"


def disk(recipe: Recipe, run_dir: Path, weights: float | None = None) -> Disk:
    """The space for a run of the recipe in `run_dir`, which need not exist yet.

    `weights` is the number of parameters of a model that is not a local folder.
    """
    place = existing(run_dir)
    train, episodes = recipe.train, recipe.rollout.tasks_per_iteration * recipe.algorithm.group_size
    kept = train.keep_checkpoints + 1  # one is written before the oldest is deleted
    each = f"{kept} checkpoints x"
    parts = {}
    if trained := _count_trained(recipe, weights):
        parts[f"{each} ({size(4 * trained)} of weights, {size(8 * trained)} of optimizer)"] = 12.0 * kept * trained
        if recipe.engine.type == "verl":  # the shards of the optimizer have the weights as well
            parts[f"{each} weights in shards"] = 4.0 * kept * trained
    if replay := getattr(recipe.algorithm, "replay", None):
        parts[f"{each} at most {replay.capacity} replayed episodes"] = kept * replay.capacity * _episode_bytes(recipe)
    if every := train.trajectories_every:
        saved = 1 + train.iterations // every
        parts[f"screens of {saved} iterations x {min(KEPT, episodes)} episodes"] = (
            saved * min(KEPT, episodes) * _episode_bytes(recipe)
        )
    return Disk(place, shutil.disk_usage(place).free, {what: n for what, n in parts.items() if n})


def _episode_bytes(recipe: Recipe) -> float:
    embedded = fleet_type(recipe.fleet).in_process
    pixels = recipe.phone.width * recipe.phone.height
    screen = SCREEN_BYTES_PER_PIXEL * pixels if embedded else DEVICE_SCREEN_BYTES
    return STEPS * (screen + STEP_BYTES)


def _count_trained(recipe: Recipe, weights: float | None) -> float:
    """Number of parameters that are trained and saved; 0 if the model's folder does not show it."""
    folder = Path(recipe.model)
    if weights is not None:
        return weights * min(1.0, LORA_SHARE * recipe.engine.lora_rank) if recipe.engine.lora_rank else weights
    if recipe.engine.lora_rank and (folder / "config.json").is_file() and find_spec("transformers"):
        from mobilerl.models.memory import parameters

        try:
            return parameters(folder, recipe.engine)[1]
        except (OSError, ValueError, LookupError, AttributeError):  # no vision-language model, or damaged
            return 0
    return sum(map(parameters_in, sorted(folder.glob("*.safetensors")))) if recipe.model else 0


def parameters_in(path: Path) -> int:
    """Number of parameters in a safetensors file, from its header; 0 if it is damaged."""
    try:
        with open(path, "rb") as f:
            header = json.loads(f.read(min(int.from_bytes(f.read(8), "little"), path.stat().st_size)))
        shapes = [tensor["shape"] for name, tensor in header.items() if name != "__metadata__"]
        return sum(map(math.prod, shapes))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return 0
