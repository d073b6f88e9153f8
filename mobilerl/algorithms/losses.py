"""Losses over response tokens. A row is one model call; tensors are (R rows, L response positions), padded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

import torch
from torch import Tensor

Aggregation = Literal["token-mean", "row-mean", "trajectory-mean"]

MAX_LOG_RATIO = 20.0
"""Log-ratios are clamped to +-this before exp, so that one absurd token cannot turn a batch into inf or NaN."""

MAX_METRICS = frozenset({"ratio_max"})
"""Metrics of which a whole batch has the maximum over its micro-batches. All the others add."""


def aggregation_weights(mask: Tensor, agg: Aggregation, trajectory: Tensor | None = None) -> Tensor:
    """How much each token counts: (R, L) float32, zero where mask is 0, summing to 1.

    - `token-mean`: every token equally.
    - `row-mean`: every row equally, its tokens equally.
    - `trajectory-mean`: every trajectory equally, its rows equally, their tokens equally; a long episode then weighs no
      more than a short one. `trajectory` (R,) holds integer ids in any order.

    Rows without tokens, and trajectories without such rows, do not count. Computed once over all the rows of an
    optimiser step and sliced for the micro-batches, it makes their losses add up to the whole batch's exactly.
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
    elif agg == "row-mean":
        per_token = 1.0 / (row_counts.sum() * tokens.clamp(min=1))
    elif agg == "trajectory-mean":
        if trajectory is None or trajectory.shape != tokens.shape:
            raise ValueError("agg 'trajectory-mean' needs trajectory: one integer id per row")
        ids, index = torch.unique(trajectory, return_inverse=True)
        rows_of = tokens.new_zeros(ids.numel()).index_add(0, index, row_counts.to(tokens.dtype))
        per_token = 1.0 / ((rows_of > 0).sum() * rows_of[index].clamp(min=1) * tokens.clamp(min=1))
    else:
        raise ValueError(f"unknown agg {agg!r}: use token-mean, row-mean or trajectory-mean")
    return per_token.unsqueeze(1) * mask


def clipped_policy_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantage: Tensor,
    mask: Tensor,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    rollout_logp: Tensor | None = None,
    is_cap: float | None = None,
    agg: Aggregation = "token-mean",
    *,
    trajectory: Tensor | None = None,
    weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Clipped-ratio policy loss (PPO eq. 7, as in GRPO), with clip-higher (DAPO) and truncated importance weights.

        rho   = exp(logp - old_logp)
        w     = min(exp(old_logp - rollout_logp), is_cap), without gradient; 1 unless both are given
        loss  = -sum over tokens of weight * w * min(rho * A, clip(rho, 1 - clip_low, 1 + clip_high) * A)

    w corrects the gap between the engine that sampled and the trainer's recomputed `old_logp`. For a replayed row the
    stored behaviour log-probabilities are `old_logp` (and `rollout_logp`, so w = 1): the clip itself bounds how far off
    policy it may pull. Padded positions (mask 0) may hold anything, NaN included: they reach neither loss nor gradient
    nor metric.

    Args:
        logp: (R, L) log-probabilities of the response tokens under the weights being trained; carries the gradient.
        old_logp: (R, L) of the policy the ratio is taken against; no gradient flows into it.
        advantage: (R,) one per row, or (R, L).
        mask: (R, L) 1 for response tokens.
        clip_low, clip_high: widths of the clip below and above 1; clip_high > clip_low is clip-higher.
        rollout_logp: (R, L) as recorded when the tokens were sampled.
        is_cap: largest importance weight (2.0 is usual). None switches the weights off.
        agg, trajectory: as in `aggregation_weights`; not used if `weights` is given.
        weights: (R, L) this micro-batch's rows of the optimiser step's `aggregation_weights`.

    Returns:
        The loss, and detached 0-d metrics, weighted like it: `clip_frac` (tokens whose gradient the clip removed),
        `ratio_mean`, `approx_kl` (k3 estimate of KL(old || new)), `is_weight_mean`, `is_cap_frac` (tokens whose w was
        cut) and `ratio_max`. With `weights`, losses and metrics of micro-batches add up to the whole batch's, except
        `ratio_max`, of which the maximum counts: see `merge_metrics`.
    """
    if not 0.0 <= clip_low <= 1.0 or clip_high < 0.0:
        raise ValueError(f"clip_low must be in [0, 1] and clip_high >= 0, got {clip_low} and {clip_high}")
    if is_cap is not None and (rollout_logp is None or is_cap <= 0):
        raise ValueError(f"is_cap must be > 0 and needs rollout_logp, got is_cap={is_cap}")
    _check_shapes(logp, old_logp=old_logp, mask=mask, rollout_logp=rollout_logp, weights=weights)
    if weights is None:
        weights = aggregation_weights(mask, agg, trajectory)

    mask = mask.bool()
    logp, old_logp = _at_tokens(logp, mask), _at_tokens(old_logp, mask).detach()
    advantage = _per_token(advantage, mask)
    ratio = _safe_exp(logp - old_logp)
    clipped_ratio = ratio.clamp(1 - clip_low, 1 + clip_high)
    objective = torch.minimum(ratio * advantage, clipped_ratio * advantage)

    importance = torch.ones_like(old_logp)
    capped = torch.zeros_like(mask)
    if rollout_logp is not None and is_cap is not None:
        importance = _safe_exp(old_logp - _at_tokens(rollout_logp, mask).detach())
        capped = importance > is_cap
        importance = importance.clamp(max=is_cap)

    with torch.no_grad():
        clipped = ((advantage > 0) & (ratio > 1 + clip_high)) | ((advantage < 0) & (ratio < 1 - clip_low))
        metrics = {
            "clip_frac": (weights * clipped).sum(),
            "ratio_mean": (weights * ratio).sum(),
            "ratio_max": ratio.masked_fill(~mask, 0.0).max(),
            "approx_kl": (weights * kl_k3(old_logp, logp)).sum(),
            "is_weight_mean": (weights * importance).sum(),
            "is_cap_frac": (weights * capped).sum(),
        }
    return -(weights * importance * objective).sum(), metrics


def kl_k3(logp: Tensor, ref_logp: Tensor) -> Tensor:
    """Per-token estimate of KL(policy || reference) on tokens drawn from the policy; unbiased and never negative.

        k3 = exp(ref_logp - logp) - (ref_logp - logp) - 1        (Schulman 2020; GRPO eq. 4)

    Same shape as the inputs, in nats. Both must be finite, padding included; to aggregate, multiply by
    `aggregation_weights` and sum.
    """
    log_ratio = _clamp(ref_logp - logp)
    return log_ratio.exp() - log_ratio - 1


def merge_metrics(parts: Iterable[Mapping[str, Tensor | float]]) -> dict[str, float]:
    """Metrics of a whole optimiser step from those of its micro-batches: sums, and maxima for `MAX_METRICS`."""
    merged: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            if name in MAX_METRICS:
                merged[name] = max(merged.get(name, -math.inf), float(value))
            else:
                merged[name] = merged.get(name, 0.0) + float(value)
    return merged


def _check_shapes(logp: Tensor, **others: Tensor | None) -> None:
    if logp.dim() != 2:
        raise ValueError(f"logp must be (rows, tokens), got shape {tuple(logp.shape)}")
    for name, tensor in others.items():
        if tensor is not None and tensor.shape != logp.shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, but logp has {tuple(logp.shape)}")


def _at_tokens(values: Tensor, mask: Tensor) -> Tensor:
    """At least float32 (exp of a bfloat16 difference is too coarse for a ratio), and 0 where there is no token."""
    return values.to(torch.promote_types(values.dtype, torch.float32)).masked_fill(~mask, 0.0)


def _per_token(advantage: Tensor, mask: Tensor) -> Tensor:
    if advantage.shape == mask.shape[:1]:
        advantage = advantage.unsqueeze(1).expand(mask.shape)
    if advantage.shape != mask.shape:
        raise ValueError(f"advantage must be (rows,) or (rows, tokens), got shape {tuple(advantage.shape)}")
    return _at_tokens(advantage, mask).detach()


def _clamp(log_ratio: Tensor) -> Tensor:
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def _safe_exp(log_ratio: Tensor) -> Tensor:
    return _clamp(log_ratio).exp()
