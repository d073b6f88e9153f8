"""Padded (rows, tokens) tensors: checks, masking, and finite ratios."""

from __future__ import annotations

import torch
from torch import Tensor

MAX_LOG_RATIO = 20.0
"""Log-ratios are clamped to +- this value before exp, so that a single token cannot turn a batch into inf or NaN."""


def check_shapes(logp: Tensor, **others: Tensor | None) -> None:
    if logp.dim() != 2:
        raise ValueError(f"logp must be (rows, tokens), got shape {tuple(logp.shape)}")
    for name, tensor in others.items():
        if tensor is not None and tensor.shape != logp.shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, but logp has {tuple(logp.shape)}")


def at_tokens(values: Tensor, mask: Tensor) -> Tensor:
    """Masks `values` with 0 and casts them to at least float32, since bfloat16 is too coarse for exp of a log-ratio."""
    return values.to(torch.promote_types(values.dtype, torch.float32)).masked_fill(~mask, 0.0)


def per_token(values: Tensor, mask: Tensor, name: str = "advantage") -> Tensor:
    """Expands (R,) or (R, L) values to (R, L), masked and without gradient."""
    if values.shape == mask.shape[:1]:
        values = values.unsqueeze(1).expand(mask.shape)
    if values.shape != mask.shape:
        raise ValueError(f"{name} must be (rows,) or (rows, tokens), got shape {tuple(values.shape)}")
    return at_tokens(values, mask).detach()


def clamp_ratio(log_ratio: Tensor) -> Tensor:
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def safe_exp(log_ratio: Tensor) -> Tensor:
    return clamp_ratio(log_ratio).exp()
