"""Losses on data of earlier policies: imitation (filtered BC, DigiRL) and A-RIDE (DistRL)."""

from __future__ import annotations

import torch
from torch import Tensor

from mobilerl.algorithms.losses.aggregation import Aggregation, aggregation_weights
from mobilerl.algorithms.losses.tokens import at_tokens, check_shapes, per_token, safe_exp


def imitation_loss(
    logp: Tensor,
    mask: Tensor,
    row_weight: Tensor | None = None,
    agg: Aggregation = "token-mean",
    *,
    trajectory: Tensor | None = None,
    weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Maximum likelihood of the response tokens of chosen rows.

        loss = -sum over tokens of weight * row_weight * log pi

    Filtered BC: the rows of successes. DigiRL: the rows that its filters keep (eq. 4.2). Advantage-weighted regression:
    all rows, `row_weight` = `advantages.soft_weight` (eq. 4.1). A row left out by a filter should not be in the batch:
    with row_weight 0 it has no gradient but still counts as a row, and the others then count for less.

    The equations sum log pi(a|s) over an action's tokens; `agg` divides by their number, as in `clipped_policy_loss`.
    The released code of DigiRL clamps each token's probability to [0.001, 0.99], which takes the gradient from the
    least likely tokens; this does not.

    Args:
        logp: (R, L) log-probabilities under the weights being trained; carries the gradient. Padding may hold anything.
        mask: (R, L) 1 for response tokens.
        row_weight: (R,) >= 0, without gradient; None for all 1.
        agg, trajectory, weights: as in `clipped_policy_loss`.

    Returns:
        The loss, and detached 0-d metrics weighted like it: `nll` (mean of -log pi) and `row_weight_mean`.
    """
    check_shapes(logp, mask=mask, weights=weights)
    if weights is None:
        weights = aggregation_weights(mask, agg, trajectory)
    mask = mask.bool()
    logp = at_tokens(logp, mask)
    factor = per_token(logp.new_ones(len(logp)) if row_weight is None else row_weight, mask, "row_weight")
    if (factor < 0).any():
        raise ValueError(f"row_weight must not be negative, got {factor.min().item():g}")
    metrics = {"nll": -(weights * logp.detach()).sum(), "row_weight_mean": (weights * factor).sum()}
    return -(weights * factor * logp).sum(), metrics


def aride_loss(
    logp: Tensor,
    rollout_logp: Tensor,
    advantage: Tensor,
    mask: Tensor,
    ratio_cap: float | None = 1.0,
    entropy_coef: float = 0.0,
    invalid: Tensor | None = None,
    invalid_coef: float = 0.0,
    agg: Aggregation = "token-mean",
    *,
    trajectory: Tensor | None = None,
    weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The policy loss of A-RIDE (DistRL eq. 1), off policy with importance ratios.

        rho  = min(prod over the action's tokens of pi / mu, ratio_cap), one per row, without gradient
        loss = -sum over tokens of weight * rho * (A - invalid_coef * P) * log pi
               -entropy_coef * sum over tokens of weight * (-log pi)

    Where the paper leaves a choice:

    - rho is a constant. Its gradient would turn the direction around wherever log pi < -1.
    - rho is capped at 1 by default, as in the released code; the paper's text puts it in [0, 1] without saying how.
      None leaves it as it is (but for a clamp of its logarithm to +-20).
    - Ent = -log pi(a|s) of the action taken, and its sign is that of the loss: a bonus for unlikely actions. The
      paper's gradient has the other sign. On policy the expected gradient of this term is 0: it keeps the policy away
      from what the buffer holds rather than raise its entropy.
    - P(a) in {0, 1} marks invalid actions. As written, the paper's penalty has no gradient; with its score-function
      gradient it equals taking invalid_coef * P from the advantage, which is what is done. An advantage that already
      holds the penalty, as `advantages.distrl_reward` makes it, must come with invalid_coef 0.
    - The released code turns the advantage into 1[A > 0], and drops rho when the entropy term is on; this does not.
    - The equation sums over an action's tokens; `agg` divides by their number, as in `clipped_policy_loss`.

    Args:
        logp: (R, L) under the weights being trained; carries the gradient. Padding may hold anything.
        rollout_logp: (R, L) under the policy that acted, mu.
        advantage: (R,), for instance `advantages.td_error` of `advantages.distrl_reward`.
        mask: (R, L) 1 for response tokens.
        ratio_cap: largest rho, or None.
        entropy_coef: beta >= 0; 0.05 in the released code.
        invalid: (R,) 1 or True for rows whose action was invalid; needed if invalid_coef is not 0.
        invalid_coef: lambda_p >= 0; 0.1 in the released code.
        agg, trajectory, weights: as in `clipped_policy_loss`.

    Returns:
        The loss, and detached 0-d metrics: `ratio_mean` (of rho, capped), `ratio_cap_frac`, `entropy` (mean of
        -log pi per token) and `invalid_frac`, weighted like the loss, and `ratio_max` (before the cap).
    """
    if ratio_cap is not None and ratio_cap <= 0:
        raise ValueError(f"ratio_cap must be > 0, got {ratio_cap}")
    if entropy_coef < 0 or invalid_coef < 0:
        raise ValueError(f"entropy_coef and invalid_coef must not be negative, got {entropy_coef} and {invalid_coef}")
    if invalid_coef and invalid is None:
        raise ValueError("invalid_coef needs invalid: which rows' actions were invalid")
    check_shapes(logp, rollout_logp=rollout_logp, mask=mask, weights=weights)
    if weights is None:
        weights = aggregation_weights(mask, agg, trajectory)
    mask = mask.bool()
    logp = at_tokens(logp, mask)
    advantage = per_token(advantage, mask)
    bad = torch.zeros_like(advantage) if invalid is None else per_token(invalid, mask, "invalid")

    with torch.no_grad():
        ratio = safe_exp((logp - at_tokens(rollout_logp, mask)).sum(1, keepdim=True))
        rho = ratio if ratio_cap is None else ratio.clamp(max=ratio_cap)
        metrics = {
            "ratio_mean": (weights * rho).sum(),
            "ratio_cap_frac": (weights * (ratio > rho)).sum(),
            "ratio_max": ratio.masked_fill(~mask.any(1, keepdim=True), 0.0).max(),
            "entropy": -(weights * logp).sum(),
            "invalid_frac": (weights * bad).sum(),
        }
    objective = rho * (advantage - invalid_coef * bad) * logp - entropy_coef * logp
    return -(weights * objective).sum(), metrics
