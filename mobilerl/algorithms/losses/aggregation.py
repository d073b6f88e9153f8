"""Aggregation of token losses over a batch."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Aggregation = Literal["token-mean", "sample-mean", "trajectory-mean"]


def aggregation_weights(mask: Tensor, agg: Aggregation, trajectory: Tensor | None = None) -> Tensor:
    """Weight of each token in the loss: (R, L) float32, zero where mask is 0, summing to 1.

    - `token-mean`: all tokens have equal weight.
    - `sample-mean`: all samples have equal weight, and so have the tokens of a sample.
    - `trajectory-mean`: all trajectories have equal weight, so that long episodes do not dominate, and so have the
      samples of a trajectory and the tokens of a sample. `trajectory` (R,) holds integer ids in any order.

    Rows without tokens do not count, nor do trajectories that have only such rows. Compute the weights once over all
    rows of an optimizer step and slice them for micro-batches, whose losses then add up to that of the whole batch.
    """
    if mask.dim() != 2:
        raise ValueError(f"mask must be (rows, tokens), got shape {tuple(mask.shape)}")
    mask = mask.bool()
    tokens = mask.sum(1)
    row_counts = tokens > 0
    if not row_counts.any():
        raise ValueError("mask is all zero: no token to train on in this batch")

    if agg == "token-mean":
        per_token = torch.ones_like(tokens, dtype=torch.float32) / tokens.sum()
    elif agg == "sample-mean":
        per_token = 1.0 / (row_counts.sum() * tokens.clamp(min=1))
    elif agg == "trajectory-mean":
        if trajectory is None or trajectory.shape != tokens.shape:
            raise ValueError("agg 'trajectory-mean' needs trajectory: one integer id per row")
        ids, index = torch.unique(trajectory, return_inverse=True)
        rows_of = tokens.new_zeros(ids.numel()).index_add(0, index, row_counts.to(tokens.dtype))
        per_token = 1.0 / ((rows_of > 0).sum() * rows_of[index].clamp(min=1) * tokens.clamp(min=1))
    else:
        raise ValueError(f"unknown agg {agg!r}: use token-mean, sample-mean or trajectory-mean")
    return per_token.unsqueeze(1) * mask
