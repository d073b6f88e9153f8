"""Transfer of a learner's weights to vLLM's processes, which read them where they are: on its GPU, by CUDA IPC."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

MEMORY = Path("/dev/shm")
PREFIX = "mobilerl-adapter-"
"""Followed by the process that writes the folder."""
BUCKET_BYTES = 1 << 28
"""Most bytes of weights that are copied at a time to be sent; a larger weight is alone."""


def adapter_folder(size: int) -> tempfile.TemporaryDirectory[str]:
    """Temporary folder to pass an adapter of `size` bytes to another process, in shared memory if there is room."""
    _remove_leftovers()
    room = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 1.2 * size
    return tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", dir=MEMORY if room else None)


def _remove_leftovers() -> None:
    """Removes the folders of killed trainers, which would hold memory until the machine is restarted."""
    for folder in MEMORY.glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)  # it may be another user's


@dataclass(frozen=True, slots=True)
class Bucket:
    """Weights in one piece of memory, one after the other."""

    names: list[str]
    shapes: list[list[int]]
    values: Tensor

    def handles(self, count: int) -> list[bytes]:
        """References to the values for `count` processes, each for one of them, valid as long as the bucket is there.

        torch passes on GPU memory by CUDA IPC, and main memory as a shared file without a name.
        """
        return [bytes(ForkingPickler.dumps(self.values)) for _ in range(count)]


@torch.no_grad()
def make_buckets(weights: Iterable[tuple[str, Tensor]], most: int = BUCKET_BYTES) -> Iterator[Bucket]:
    """Copies weights into buckets of at most `most` bytes or one weight, each of one precision."""
    part: list[tuple[str, Tensor]] = []
    for name, weight in weights:
        if part and (sum(w.nbytes for _, w in part) + weight.nbytes > most or weight.dtype != part[0][1].dtype):
            yield _bucket(part)
            part = []
        part.append((name, weight))
    if part:
        yield _bucket(part)


def _bucket(part: Sequence[tuple[str, Tensor]]) -> Bucket:
    values = torch.cat([weight.reshape(-1) for _, weight in part])
    return Bucket([name for name, _ in part], [list(weight.shape) for _, weight in part], values)


def read_bucket(handle: bytes, names: Sequence[str], shapes: Sequence[Sequence[int]]) -> Iterator[tuple[str, Tensor]]:
    """Yields the weights of another process's bucket, without a copy."""
    values = ForkingPickler.loads(handle)  # of the process that started this one, over a channel of its own
    parts = values.split([math.prod(shape) for shape in shapes])
    for name, shape, part in zip(names, shapes, parts, strict=True):
        yield name, part.view(tuple(shape))


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
