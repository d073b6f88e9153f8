"""Transfer of a learner's weights to vLLM's processes: safetensors files in shared memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

MEMORY = Path("/dev/shm")
PREFIX = "mobilerl-weights-"
"""Followed by the process that writes the folder."""
SHARD_BYTES = 1 << 30
"""Size of the weight shards that are copied to main memory at a time."""


def weights_folder(size: int) -> tempfile.TemporaryDirectory[str]:
    """Temporary folder to pass `size` bytes to another process, in shared memory if there is room."""
    _remove_leftovers()
    room = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 1.2 * size
    return tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", dir=MEMORY if room else None)


def _remove_leftovers() -> None:
    """Removes the folders of killed trainers, which would hold gigabytes of memory until the machine is restarted."""
    for folder in MEMORY.glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)  # it may be another user's


def write_shards(weights: Iterable[tuple[str, Tensor]], folder: Path, shard_bytes: int = SHARD_BYTES) -> list[str]:
    """Writes safetensors files of about `shard_bytes`; returns their paths."""
    paths: list[str] = []
    shard: dict[str, Tensor] = {}

    def write() -> None:
        paths.append(str(folder / f"{len(paths):05d}.safetensors"))
        save_file(shard, paths[-1])
        shard.clear()

    for name, tensor in weights:
        shard[name] = tensor.detach().to("cpu").contiguous()
        if sum(t.nbytes for t in shard.values()) >= shard_bytes:
            write()
    if shard:
        write()
    return paths


@torch.no_grad()
def checkpoint_weights(model: Any, merged: bool = True) -> Iterator[tuple[str, Tensor]]:
    """Yields all weights of a model, tied ones once, by their Hugging Face names.

    Of a model with a LoRA adapter: those of its base, with the adapter added to them if `merged`. The base itself stays
    as it is.
    """
    if not hasattr(model, "peft_config"):
        yield from model.named_parameters()
        return
    base = model.get_base_model()
    adapted = {name: module for name, module in base.named_modules() if hasattr(module, "get_delta_weight")}
    for name, weight in base.named_parameters():
        owner, _, kind = name.rpartition(".base_layer.")
        if owner in adapted:
            if kind == "weight" and merged:
                for adapter in adapted[owner].active_adapters:
                    weight = weight + adapted[owner].get_delta_weight(adapter).to(weight.dtype)
            yield f"{owner}.{kind}", weight
        elif not any(name.startswith(f"{path}.") for path in adapted):
            yield name, weight
