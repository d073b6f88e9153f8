"""Learning from pairs of actions (ReachAgent's second stage)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from mobilerl.algorithms.checks import same_length
from mobilerl.algorithms.losses.tokens import at_tokens, check_shapes


def action_logp(logp: Tensor, mask: Tensor) -> Tensor:
    """(R,) log pi(a|s) of whole responses: `logp` (R, L) summed where mask is 1. Padding may hold anything."""
    check_shapes(logp, mask=mask)
    return at_tokens(logp, mask.bool()).sum(1)


def dpo_loss(
    chosen_logp: Tensor, rejected_logp: Tensor, ref_chosen_logp: Tensor, ref_rejected_logp: Tensor, beta: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Direct preference optimization (Rafailov et al. 2023, eq. 7; ReachAgent's second stage).

        margin = beta * [log pi(a_w|x) - log pi_ref(a_w|x) - (log pi(a_l|x) - log pi_ref(a_l|x))]
        loss   = -mean log sigmoid(margin)

    pi_ref is the initial policy, which for ReachAgent comes from stage 1. Its beta is not published; 0.1 is usual.

    Args:
        chosen_logp, rejected_logp: (P,) log-probabilities of each pair's better and worse action, summed over tokens
            (`action_logp`), with gradient.
        ref_chosen_logp, ref_rejected_logp: (P,) the same under pi_ref; no gradient flows into them.
        beta: scale (> 0) of the log-ratios to pi_ref.

    Returns:
        The mean loss over pairs, and the means of detached 0-d metrics: `accuracy` (pairs whose margin is positive),
        `margin`, and the implicit rewards `chosen_reward` and `rejected_reward`, beta * log(pi / pi_ref).
    """
    if beta <= 0:
        raise ValueError(f"beta must be above 0, got {beta}")
    same_length(
        chosen_logp=chosen_logp,
        rejected_logp=rejected_logp,
        ref_chosen_logp=ref_chosen_logp,
        ref_rejected_logp=ref_rejected_logp,
    )
    if not len(chosen_logp):
        raise ValueError("dpo_loss needs at least one pair")
    dtype = torch.promote_types(chosen_logp.dtype, torch.float32)
    chosen = beta * (chosen_logp.to(dtype) - ref_chosen_logp.to(dtype).detach())
    rejected = beta * (rejected_logp.to(dtype) - ref_rejected_logp.to(dtype).detach())
    margin = chosen - rejected
    metrics = {
        "accuracy": (margin > 0).to(dtype).mean(),
        "margin": margin.detach().mean(),
        "chosen_reward": chosen.detach().mean(),
        "rejected_reward": rejected.detach().mean(),
    }
    return -F.logsigmoid(margin).mean(), metrics
