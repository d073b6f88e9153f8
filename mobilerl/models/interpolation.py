"""Linear interpolation of two checkpoints of one model."""

from __future__ import annotations

import shutil
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from mobilerl.config import ConfigError
from mobilerl.models.checkpoint_folder import STATE_FILE

KEPT = frozenset({".json", ".jinja", ".txt", ".model"})
"""Suffixes of files beside the weights: config, tokenizer, chat template, agent."""


def interpolate(initial: Path, trained: Path, out: Path, share: float) -> None:
    """Writes the model `out`, with `share` of the weights of `initial`:

        theta = share * theta_initial + (1 - share) * theta_trained
                                              (interpolation towards initialization, WARP, arXiv 2406.16768)

    Other files, and dtypes, are those of `trained`. `out` is replaced when it is complete. Raises ConfigError if the
    two have different weights.
    """
    where = {name: file for file in initial.glob("*.safetensors") for name in _names(file)}
    temporary = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        for file in trained.glob("*.safetensors"):
            save_file(_mixed(file, where, initial, share), temporary / file.name, metadata={"format": "pt"})
        for file in trained.iterdir():
            if file.suffix in KEPT and file.name != STATE_FILE:
                shutil.copy(file, temporary)
        shutil.rmtree(out, ignore_errors=True)
        temporary.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _names(file: Path) -> list[str]:
    with safe_open(file, "pt") as opened:
        return list(opened.keys())


def _mixed(file: Path, where: dict[str, Path], initial: Path, share: float) -> dict[str, Tensor]:
    """The interpolated weights of one file of the trained model."""
    mixed: dict[str, Tensor] = {}
    with safe_open(file, "pt") as opened:
        for name in opened.keys():  # noqa: SIM118 - not a dict
            if name not in where:
                raise ConfigError(f"train.initial_share: {initial} has no weights {name}, which the trained model has")
            with safe_open(where[name], "pt") as first:
                before, after = first.get_tensor(name), opened.get_tensor(name)
            if before.shape != after.shape:
                raise ConfigError(f"train.initial_share: {name} is {tuple(before.shape)} in {initial}")
            mixed[name] = before.float().lerp(after.float(), 1.0 - share).to(after.dtype)
    return mixed
