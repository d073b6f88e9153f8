"""The clipped policy loss and the KL divergence from a reference."""

from __future__ import annotations

import torch
from torch import Tensor

from mobilerl.algorithms.losses.aggregation import Aggregation, aggregation_weights
from mobilerl.algorithms.losses.tokens import at_tokens, check_shapes, clamp_ratio, per_token, safe_exp


def clipped_policy_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantage: Tensor,
    mask: Tensor,
    clip_low: float = 0.2,
    clip_high: float | Tensor = 0.2,
    rollout_logp: Tensor | None = None,
    is_cap: float | None = None,
    agg: Aggregation = "token-mean",
    *,
    trajectory: Tensor | None = None,
    weights: Tensor | None = None,
    dual_clip: float | None = None,
    replayed: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Clipped policy loss (PPO eq. 7, as in GRPO) with clip-higher (DAPO) and truncated importance sampling.

        rho   = exp(logp - old_logp)
        w     = min(exp(old_logp - rollout_logp), is_cap), without gradient; 1 unless both are given
        loss  = -sum over tokens of weight * w * min(rho * A, clip(rho, 1 - clip_low, 1 + clip_high) * A)

    For A < 0, `dual_clip` = c bounds the term from below by c * A (dual-clip PPO, eq. 5 of arXiv 1912.09729). Without
    it, a token that has become much more likely since it was sampled outweighs all others.

    w corrects for the gap between the sampling engine and the `old_logp` that the trainer recomputes. For a replayed
    row the stored behavior log-probabilities are both `old_logp` and `rollout_logp`, so w = 1 and the clip alone bounds
    its off-policy update. Padded positions (mask 0) may hold anything, even NaN: they affect no loss, gradient or
    metric.

    Args:
        logp: (R, L) log-probabilities of the response tokens under the weights being trained; carries the gradient.
        old_logp: (R, L) log-probabilities in the denominator of the ratio; no gradient flows into them.
        advantage: (R,), one per row, or (R, L).
        mask: (R, L) 1 for response tokens.
        clip_low, clip_high: clip range below and above 1; clip_high > clip_low is clip-higher. `clip_high` may be (R,):
            infinity leaves a row's ratio unbounded from above.
        rollout_logp: (R, L) log-probabilities recorded when the tokens were sampled.
        is_cap: maximum importance weight (2.0 is usual). None disables the weights.
        agg, trajectory: as in `aggregation_weights`; ignored if `weights` is given.
        weights: (R, L) rows of the optimizer step's `aggregation_weights` that belong to this micro-batch.
        dual_clip: c > 1, or None for no lower bound.
        replayed: (R,) bool. Adds the metrics `replay_weight`, the total weight of these rows, and
            `clip_frac_replayed`, their part of `clip_frac`.

    Returns:
        The loss, and detached 0-d metrics with the same weights: `clip_frac` (tokens whose gradient was clipped away),
        `ratio_mean`, `approx_kl` (k3 estimate of KL(old || new)), `is_weight_mean`, `is_cap_frac` (tokens whose w was
        capped) and `ratio_max`. With `weights`, the losses and metrics of micro-batches add up to those of the batch,
        except `ratio_max`: for metrics that end in `_max` take the maximum (`engines.scoring.add_metrics`).
    """
    upper = torch.as_tensor(clip_high, dtype=logp.dtype, device=logp.device).reshape(-1, 1)
    # A tensor is not read: on a GPU that would wait for the forward pass.
    if not 0.0 <= clip_low <= 1.0 or (not isinstance(clip_high, Tensor) and not clip_high >= 0.0):
        raise ValueError(f"clip_low must be in [0, 1] and clip_high >= 0, got {clip_low} and {clip_high}")
    if dual_clip is not None and dual_clip <= 1.0:
        raise ValueError(f"dual_clip must be above 1, got {dual_clip}")
    if is_cap is not None and (rollout_logp is None or is_cap <= 0):
        raise ValueError(f"is_cap must be > 0 and needs rollout_logp, got is_cap={is_cap}")
    check_shapes(logp, old_logp=old_logp, mask=mask, rollout_logp=rollout_logp, weights=weights)
    if weights is None:
        weights = aggregation_weights(mask, agg, trajectory)

    mask = mask.bool()
    logp, old_logp = at_tokens(logp, mask), at_tokens(old_logp, mask).detach()
    advantage = per_token(advantage, mask)
    ratio = safe_exp(logp - old_logp)
    clipped_ratio = torch.minimum(ratio.clamp(min=1 - clip_low), 1 + upper)
    objective = torch.minimum(ratio * advantage, clipped_ratio * advantage)
    if dual_clip is not None:
        objective = torch.where(advantage < 0, torch.maximum(objective, dual_clip * advantage), objective)

    importance = torch.ones_like(old_logp)
    capped = torch.zeros_like(mask)
    if rollout_logp is not None and is_cap is not None:
        importance = safe_exp(old_logp - at_tokens(rollout_logp, mask).detach())
        capped = importance > is_cap
        importance = importance.clamp(max=is_cap)

    with torch.no_grad():
        clipped = ((advantage > 0) & (ratio > 1 + upper)) | ((advantage < 0) & (ratio < 1 - clip_low))
        if dual_clip is not None:
            clipped |= (advantage < 0) & (ratio > dual_clip)
        metrics = {
            "clip_frac": (weights * clipped).sum(),
            "ratio_mean": (weights * ratio).sum(),
            "ratio_max": ratio.masked_fill(~mask, 0.0).max(),
            "approx_kl": (weights * kl_k3(old_logp, logp)).sum(),
            "is_weight_mean": (weights * importance).sum(),
            "is_cap_frac": (weights * capped).sum(),
        }
        if replayed is not None:
            part = weights * replayed.unsqueeze(1)
            metrics |= {"replay_weight": part.sum(), "clip_frac_replayed": (part * clipped).sum()}
    return -(weights * importance * objective).sum(), metrics


def kl_k3(logp: Tensor, ref_logp: Tensor) -> Tensor:
    """Per-token estimate of KL(policy || reference) on tokens sampled from the policy; unbiased and never negative.

        k3 = exp(ref_logp - logp) - (ref_logp - logp) - 1        (Schulman 2020; GRPO eq. 4)

    The result has the inputs' shape and is in nats. Both inputs must be finite, padding included. To aggregate,
    multiply by `aggregation_weights` and sum.
    """
    log_ratio = clamp_ratio(ref_logp - logp)
    return log_ratio.exp() - log_ratio - 1
