"""Off-policy losses: imitation (filtered BC, DigiRL) and A-RIDE (DistRL)."""

from __future__ import annotations

import torch
from torch import Tensor

from mobilerl.algorithms.losses.tokens import at_tokens, check_shapes, per_token, safe_exp


def imitation_loss(
    logp: Tensor, mask: Tensor, sample_weight: Tensor, weights: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Weighted negative log-likelihood of the response tokens of selected samples.

        loss = -sum over tokens of weight * sample_weight * log pi

    Filtered BC selects samples of successes; DigiRL those that its filters keep (eq. 4.2). Leave filtered samples out
    of the batch: with `sample_weight` 0 a sample has no gradient but still counts in the mean, so others count less.

    The papers sum log pi(a|s) over the tokens of an action, whereas `weights` divide by their number.
    DigiRL's released code clamps each token's probability to [0.001, 0.99], which removes the gradient of the least
    likely tokens; this loss does not.

    Args:
        logp: (R, L) log-probabilities under the weights being trained, with gradient. Padding may hold anything.
        mask: (R, L) 1 for response tokens.
        sample_weight: (R,) >= 0, without gradient.
        weights: (R, L) rows of the optimizer step's `aggregation_weights` that belong to this micro-batch.

    Returns:
        The loss, and detached 0-d metrics with the same weights: `nll` (mean of -log pi) and `sample_weight_mean`.
    """
    check_shapes(logp, mask=mask, weights=weights)
    mask = mask.bool()
    logp = at_tokens(logp, mask)
    factor = per_token(sample_weight, mask, "sample_weight")
    if (factor < 0).any():
        raise ValueError(f"sample_weight must not be negative, got {factor.min().item():g}")
    metrics = {"nll": -(weights * logp.detach()).sum(), "sample_weight_mean": (weights * factor).sum()}
    return -(weights * factor * logp).sum(), metrics


def aride_loss(
    logp: Tensor,
    rollout_logp: Tensor,
    advantage: Tensor,
    mask: Tensor,
    weights: Tensor,
    ratio_cap: float | None = 1.0,
    entropy_coef: float = 0.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Off-policy policy loss of A-RIDE with importance ratios (DistRL eq. 1).

        rho  = min(prod over the tokens of an action of pi / mu, ratio_cap), one per row, without gradient
        loss = -sum over tokens of weight * rho * A * log pi
               -entropy_coef * sum over tokens of weight * (-log pi)

    Choices that the paper leaves open:

    - rho is a constant. With its gradient, the update would be reversed wherever log pi < -1.
    - rho is capped at 1 by default, as in the released code; the paper's text puts it in [0, 1] without saying how.
      None leaves it uncapped (except that its logarithm is clamped to +-20).
    - Ent = -log pi(a|s) of the action taken, with the sign of the paper's loss: a bonus for unlikely actions. The
      paper's gradient has the opposite sign. On policy the expected gradient of this term is 0: it pushes the policy
      away from the actions in the buffer rather than raising its entropy.
    - The paper's penalty for invalid actions, lambda_p P(a), has no gradient as written; with its score-function
      gradient it equals subtracting lambda_p P from the advantage, which `advantages.distrl_reward` already does.
    - The released code replaces the advantage by 1[A > 0] and drops rho if the entropy term is on; this loss does not.
    - The equation sums over the tokens of an action, whereas `weights` divide by their number.

    Args:
        logp: (R, L) log-probabilities under the weights being trained, with gradient. Padding may hold anything.
        rollout_logp: (R, L) log-probabilities under mu, the policy that acted.
        advantage: (R,), for instance `advantages.td_error` of `advantages.distrl_reward`.
        mask: (R, L) 1 for response tokens.
        weights: (R, L) rows of the optimizer step's `aggregation_weights` that belong to this micro-batch.
        ratio_cap: maximum rho, or None.
        entropy_coef: beta >= 0; 0.05 in the released code.

    Returns:
        The loss, and detached 0-d metrics: `ratio_mean` (of the capped rho), `ratio_cap_frac` and `neg_logp` (mean of
        -log pi per token), with the same weights, and `ratio_max` (before the cap).
    """
    if ratio_cap is not None and ratio_cap <= 0:
        raise ValueError(f"ratio_cap must be > 0, got {ratio_cap}")
    if entropy_coef < 0:
        raise ValueError(f"entropy_coef must not be negative, got {entropy_coef}")
    check_shapes(logp, rollout_logp=rollout_logp, mask=mask, weights=weights)
    mask = mask.bool()
    logp = at_tokens(logp, mask)
    advantage = per_token(advantage, mask)

    with torch.no_grad():
        ratio = safe_exp((logp - at_tokens(rollout_logp, mask)).sum(1, keepdim=True))
        rho = ratio if ratio_cap is None else ratio.clamp(max=ratio_cap)
        metrics = {
            "ratio_mean": (weights * rho).sum(),
            "ratio_cap_frac": (weights * (ratio > rho)).sum(),
            "ratio_max": ratio.masked_fill(~mask.any(1, keepdim=True), 0.0).max(),
            "neg_logp": -(weights * logp).sum(),
        }
    objective = rho * advantage * logp - entropy_coef * logp
    return -(weights * objective).sum(), metrics
