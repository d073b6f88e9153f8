"""The weights of an adapter that training began with, from which a KL term measures how far the policy has gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor


class FirstAdapter:
    """The first weights of what learns in `model`, few of all, to take the place of today's while a reference scores.

    A new adapter adds nothing to its base, which is then the reference. One that was trained before is its own.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._first = {n: _own(p).detach().clone() for n, p in model.named_parameters() if p.requires_grad}

    @contextmanager
    def in_place(self, model: torch.nn.Module) -> Iterator[None]:
        """Nobody else may use the model meanwhile."""
        now = _exchange(model, self._first)
        try:
            yield
        finally:
            _exchange(model, now)


@torch.no_grad()
def _exchange(model: torch.nn.Module, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Puts `values` into the model; returns what was there."""
    for module in model.modules():
        if isinstance(module, FSDPModule):  # what was gathered for a forward pass is thrown away with it
            module.reshard()
    before = {}
    for name, parameter in model.named_parameters():
        if name in values:
            own = _own(parameter)
            before[name] = own.clone()
            own.copy_(values[name])
    return before


def _own(parameter: Tensor) -> Tensor:
    """This process's part of a parameter that is spread over many."""
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter
