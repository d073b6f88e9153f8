"""Finds out why the gradient of an optimizer step is not finite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from mobilerl.records import MicroBatch, Objective


class FirstNonFinite:
    """Names the first quantity of an optimizer step that is NaN or infinite, in the order of their computation.

    What is seen stays on its device until `name` is asked for, so that looking does not wait for a GPU.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begins anew, for another step."""
        self._first = ""
        self._names: list[str] = []
        self._finite: list[Tensor] = []
        """(N,) bool each, together one per name."""

    @property
    def name(self) -> str:
        """Empty if everything was finite. Waits for the device if something was seen since it was last asked for."""
        if self._finite:
            good = torch.cat(self._finite).tolist()
            first = next((name for name, fine in zip(self._names, good, strict=True) if not fine), "")
            self._first, self._names, self._finite = self._first or first, [], []
        return self._first

    def look(self, quantities: Mapping[str, Tensor | None]) -> None:
        """Looks at quantities by name, in this order; all on one device."""
        values = {name: value.detach() for name, value in quantities.items() if value is not None}
        if values:
            self._note(values, torch.stack([value.isfinite().all() for value in values.values()]))

    def _note(self, names: Iterable[str], finite: Tensor) -> None:
        self._names += names
        self._finite.append(finite)

    def watching(self, objective: Objective) -> Objective:
        """The objective, with a look at what it gets and returns and, in the backward pass, at its gradient."""

        def watch(micro: MicroBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
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
            self._look_at_loss(loss.detach(), metrics)
            if micro.logp.requires_grad:
                micro.logp.register_hook(lambda gradient: self.look({"the loss's gradient": gradient}))
            return loss, metrics

        return watch

    def _look_at_loss(self, loss: Tensor, metrics: Mapping[str, Tensor]) -> None:
        """Metrics alone are no reason: a maximum over no tokens is minus infinity."""
        finite = torch.stack([value.detach().isfinite().all() for value in (*metrics.values(), loss)])
        self._note([f"the objective's {name}" for name in metrics] + ["the loss"], finite | finite[-1])

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
