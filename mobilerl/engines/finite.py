"""Finds out why the gradient of an optimizer step is not finite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from mobilerl.records import MicroBatch, Objective


class FirstNonFinite:
    """Names the first quantity of an optimizer step that is NaN or infinite, in the order of their computation."""

    def __init__(self) -> None:
        self.name = ""
        """Empty while everything is finite."""

    def look(self, quantities: Mapping[str, Tensor | float | None]) -> None:
        """Looks at quantities by name, in this order."""
        values = {name: torch.as_tensor(v).detach() for name, v in quantities.items() if v is not None}
        if self.name or not values:
            return
        finite = torch.stack([v.isfinite().all() for v in values.values()])  # one transfer from the GPU for all
        self.name = next((name for name, good in zip(values, finite.tolist(), strict=True) if not good), "")

    def watching(self, objective: Objective) -> Objective:
        """The objective, with a look at what it gets and returns and, in the backward pass, at its gradient."""

        def watched(micro: MicroBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
            self.look(
                {
                    "the sampler's log-probabilities": micro.rollout_logp,
                    "the advantage": micro.advantage,
                    "the old log-probabilities": micro.old_logp,
                    "the reference's log-probabilities": micro.ref_logp,
                    "the log-probabilities": micro.logp,
                }
            )
            loss, metrics = objective(micro)
            if not self.name and not loss.isfinite().all():
                # Metrics alone are no reason: a maximum over no tokens is minus infinity.
                self.look({f"the objective's {name}": float(value) for name, value in metrics.items()})
                self.look({"the loss": loss})
            if micro.logp.requires_grad:
                micro.logp.register_hook(lambda gradient: self.look({"the loss's gradient": gradient}))
            return loss, metrics

        return watched

    def gradients(self, named: Iterable[tuple[str, torch.nn.Parameter]]) -> None:
        """Looks at the gradients of parameters, before they are clipped, from the last layer to the first."""
        made = [(name, p.grad) for name, p in named if p.grad is not None]
        shards = {n: g.to_local() if isinstance(g, DTensor) else g for n, g in reversed(made)}
        self.look({f"the gradient of {name}": shard for name, shard in shards.items()})


def spoil(module: torch.nn.Module) -> None:
    """Makes the gradient of this process NaN, so that all processes skip the step: a loss that is not finite may have a
    finite gradient, and only its process knows."""
    for parameter in module.parameters():
        if parameter.grad is not None:
            shard = parameter.grad.to_local() if isinstance(parameter.grad, DTensor) else parameter.grad
            if shard.numel():
                shard.fill_(torch.nan)
                return
