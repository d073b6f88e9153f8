"""Masks tokens on which sampler and learner disagree too much to be learned from."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from mobilerl.algorithms.losses.tokens import at_tokens, check_shapes, safe_exp

Level = Literal["token", "sequence"]


@torch.no_grad()
def mismatch_mask(
    old_logp: Tensor, rollout_logp: Tensor, mask: Tensor, level: Level, limits: tuple[float, float]
) -> Tensor:
    """(R, L) bool: response tokens whose ratio of learner to sampler, with the same weights, is within `limits`.

        token:     k_t = exp(old_logp_t - rollout_logp_t)                 kept if low <= k_t <= high
        sequence:  k   = exp(sum over t of old_logp_t - rollout_logp_t)   all tokens of a response kept, or none

    `token` is the mask of IcePop (Ring-1T, arXiv 2510.18855), on both sides; the weight k_t that IcePop gives the other
    tokens is that of `clipped_policy_loss` with `is_cap` = high. `sequence` is the mask of TRL's `sequence_mask`, which
    has no lower limit. Log-ratios are clamped to +-20.

    With the log-probabilities of the policy being trained as `old_logp`, `token` is the two-sided mask of SAO (arXiv
    2607.07508): a token that has moved out of the limits has no gradient, whatever the sign of its advantage.

    Args:
        old_logp: (R, L) log-probabilities that the learner computed with the weights of the rollout.
        rollout_logp: (R, L) log-probabilities recorded when the tokens were sampled. Padding may hold anything.
        mask: (R, L) 1 for response tokens.
        level: whether tokens are masked one by one or with their response.
        limits: lowest and highest ratio that is kept.
    """
    check_shapes(old_logp, rollout_logp=rollout_logp, mask=mask)
    low, high = limits
    if not 0.0 <= low <= 1.0 <= high:
        raise ValueError(f"limits must be around 1, the lower one at least 0, got {low} and {high}")
    mask = mask.bool()
    gap = at_tokens(old_logp, mask) - at_tokens(rollout_logp, mask)
    ratio = safe_exp(gap if level == "token" else gap.sum(1, keepdim=True))
    return mask & (ratio >= low) & (ratio <= high)
