"""Log-probabilities of response tokens, computed without the logits of all of them in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

LOGITS = 1 << 25
"""Largest number of logits that are in memory at a time, 128 MiB in float32: 220 tokens of 152,000 words."""


@dataclass(frozen=True, slots=True)
class Targets:
    """N tokens to compute the log-probabilities of at `temperature`, with `banned` ids excluded as in sampling."""

    ids: Tensor
    banned: Tensor
    temperature: float


def token_logprobs(logits: Tensor, targets: Targets) -> Tensor:
    """(N,) log-probabilities of the targets from (N, V) logits, which it may overwrite."""
    scores = logits.float().div_(targets.temperature).index_fill_(-1, targets.banned, torch.finfo(torch.float32).min)
    return scores.gather(-1, targets.ids.unsqueeze(-1)).squeeze(-1) - scores.logsumexp(-1)


class ResponseHead(torch.nn.Linear):
    """Output layer of a language model. While log-probabilities are asked for, it returns them in place of logits.

    They are computed for a part of the tokens at a time, and once more in the backward pass, as gradient checkpointing
    does it. This costs the product of hidden states and vocabulary twice, for responses alone.
    """

    def forward(self, input: Tensor) -> Tensor:
        """(1, N, H) hidden states -> (1, N, V) logits or (1, N, 1) log-probabilities."""
        if (asked := _asked.get()) is None:
            return super().forward(input)
        step = max(1, LOGITS // self.out_features)
        hidden, ids = input[0].split(step), asked.ids.split(step)
        recompute = len(ids) > 1 and torch.is_grad_enabled()
        parts = []
        for states, part in zip(hidden, ids, strict=True):
            targets = Targets(part, asked.banned, asked.temperature)
            if recompute:
                logp = checkpoint(self._logprobs, states, targets, use_reentrant=False, preserve_rng_state=False)
            else:
                logp = self._logprobs(states, targets)
            parts.append(cast("Tensor", logp)[None, :, None])
        return torch.cat(parts, dim=1)

    def _logprobs(self, states: Tensor, targets: Targets) -> Tensor:
        return token_logprobs(super().forward(states), targets)


_asked: ContextVar[Targets | None] = ContextVar("asked", default=None)
"""One value per thread, since another thread may sample from the same model."""


@contextmanager
def _asking(targets: Targets) -> Iterator[None]:
    token = _asked.set(targets)
    try:
        yield
    finally:
        _asked.reset(token)


def use_response_head(model: Any) -> None:
    """Makes the output layer of a loaded model a `ResponseHead`."""
    if type(head := model.get_output_embeddings()) is torch.nn.Linear:
        head.__class__ = ResponseHead


def score_targets(model: Any, inputs: dict[str, Any], places: Tensor, targets: Targets) -> Tensor:
    """(N,) log-probabilities of tokens from the outputs of a model at `places` of its one row."""
    if not isinstance(model.get_output_embeddings(), ResponseHead):  # an adapter changes it
        return token_logprobs(model(**inputs, logits_to_keep=places).logits[0], targets)
    with _asking(targets):
        return cast("Tensor", model(**inputs, logits_to_keep=places).logits[0, :, 0])
