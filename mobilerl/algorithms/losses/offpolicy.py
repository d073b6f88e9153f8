"""Losses on data of earlier policies: imitation (filtered BC, DigiRL) and A-RIDE (DistRL)."""

from __future__ import annotations

import torch
from torch import Tensor

from mobilerl.algorithms.losses.tokens import at_tokens, check_shapes, per_token, safe_exp


def imitation_loss(
    logp: Tensor, mask: Tensor, sample_weight: Tensor, weights: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Maximum likelihood of the response tokens of chosen samples.

        loss = -sum over tokens of weight * sample_weight * log pi

    Filtered BC: those of successes. DigiRL: those that its filters keep (eq. 4.2). One left out by a
    filter should not be in the batch: with weight 0 it has no gradient but still counts as a sample, and the others
    then count for less.

    The equations sum log pi(a|s) over an action's tokens; `weights` divide by their number.
    The released code of DigiRL clamps each token's probability to [0.001, 0.99], which takes the gradient from the
    least likely tokens; this does not.

    Args:
        logp: (R, L) log-probabilities under the weights being trained; carries the gradient. Padding may hold anything.
        mask: (R, L) 1 for response tokens.
        sample_weight: (R,) >= 0, without gradient.
        weights: (R, L) this micro-batch's rows of the optimiser step's `aggregation_weights`.

    Returns:
        The loss, and detached 0-d metrics weighted like it: `nll` (mean of -log pi) and `sample_weight_mean`.
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
    """The policy loss of A-RIDE (DistRL eq. 1), off policy with importance ratios.

        rho  = min(prod over the action's tokens of pi / mu, ratio_cap), one per row, without gradient
        loss = -sum over tokens of weight * rho * A * log pi
               -entropy_coef * sum over tokens of weight * (-log pi)

    Where the paper leaves a choice:

    - rho is a constant. Its gradient would turn the direction around wherever log pi < -1.
    - rho is capped at 1 by default, as in the released code; the paper's text puts it in [0, 1] without saying how.
      None leaves it as it is (but for a clamp of its logarithm to +-20).
    - Ent = -log pi(a|s) of the action taken, and its sign is that of the loss: a bonus for unlikely actions. The
      paper's gradient has the other sign. On policy the expected gradient of this term is 0: it keeps the policy away
      from what the buffer holds rather than raise its entropy.
    - The paper's penalty of invalid actions, lambda_p P(a), has no gradient as written; with its score-function
      gradient it equals taking lambda_p P from the advantage. `advantages.distrl_reward` puts it there already.
    - The released code turns the advantage into 1[A > 0], and drops rho when the entropy term is on; this does not.
    - The equation sums over an action's tokens; `weights` divide by their number.

    Args:
        logp: (R, L) under the weights being trained; carries the gradient. Padding may hold anything.
        rollout_logp: (R, L) under the policy that acted, mu.
        advantage: (R,), for instance `advantages.td_error` of `advantages.distrl_reward`.
        mask: (R, L) 1 for response tokens.
        weights: (R, L) this micro-batch's rows of the optimiser step's `aggregation_weights`.
        ratio_cap: largest rho, or None.
        entropy_coef: beta >= 0; 0.05 in the released code.

    Returns:
        The loss, and detached 0-d metrics: `ratio_mean` (of rho, capped), `ratio_cap_frac` and `entropy` (mean of
        -log pi per token), weighted like the loss, and `ratio_max` (before the cap).
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
            "entropy": -(weights * logp).sum(),
        }
    objective = rho * advantage * logp - entropy_coef * logp
    return -(weights * objective).sum(), metrics
