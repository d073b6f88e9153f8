"""Weights on their way to vLLM: safetensors files under the names of the Hugging Face checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

SHARD_BYTES = 1 << 30
"""No more than this is copied to main memory at once."""


def write_shards(weights: Iterable[tuple[str, Tensor]], folder: Path, shard_bytes: int = SHARD_BYTES) -> list[str]:
    """Writes files of about `shard_bytes` as the weights come; returns their paths."""
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
def checkpoint_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Every weight of a model, tied ones once. A LoRA adapter is added to its base, which stays as it is."""
    if not hasattr(model, "peft_config"):
        yield from model.named_parameters()
        return
    base = model.get_base_model()
    adapted = {name: module for name, module in base.named_modules() if hasattr(module, "get_delta_weight")}
    for name, weight in base.named_parameters():
        owner, _, kind = name.rpartition(".base_layer.")
        if owner in adapted:
            if kind == "weight":
                for adapter in adapted[owner].active_adapters:
                    weight = weight + adapted[owner].get_delta_weight(adapter).to(weight.dtype)
            yield f"{owner}.{kind}", weight
        elif not any(name.startswith(f"{path}.") for path in adapted):
            yield name, weight
