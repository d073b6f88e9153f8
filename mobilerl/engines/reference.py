"""The initial weights of a LoRA adapter, as the reference of a KL term."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor


class FirstAdapter:
    """A copy of the initial trainable weights, swapped in to compute reference log-probabilities."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._first = {n: _shard(p).detach().clone() for n, p in model.named_parameters() if p.requires_grad}

    @contextmanager
    def in_place(self, model: torch.nn.Module) -> Iterator[None]:
        """Swaps the initial weights in. The model must not be used elsewhere at the same time."""
        now = _exchange(model, self._first)
        try:
            yield
        finally:
            _exchange(model, now)


@torch.no_grad()
def _exchange(model: torch.nn.Module, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies `values` into the model and returns the previous values."""
    for module in model.modules():
        if isinstance(module, FSDPModule):  # drops the weights gathered for a forward pass
            module.reshard()
    before = {}
    for name, parameter in model.named_parameters():
        if name in values:
            own = _shard(parameter)
            before[name] = own.clone()
            own.copy_(values[name])
    return before


def _shard(parameter: Tensor) -> Tensor:
    """This process's shard of a parameter."""
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter
