"""Objectives: functions of a micro-batch that are put together from `losses`."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mobilerl.algorithms.losses import aride_loss, clipped_policy_loss, imitation_loss, kl_k3, mismatch_mask
from mobilerl.config.algorithms import ClippedLossSection
from mobilerl.records import MicroBatch, Objective

PROB_DIFF = "rollout_prob_diff_max"
FRESH_TOKENS, FRESH_SURPRISE, FRESH_K3 = "fresh_tokens", "fresh_surprise", "fresh_k3"
"""Names of sums over the tokens that the weights being trained have sampled: their number, -log p and k3."""


def imitation(micro: MicroBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Maximum likelihood with every sample weighted by its advantage (Filtered BC, DigiRL, AWR)."""
    return imitation_loss(micro.logp, micro.mask, micro.advantage, micro.weights)


def aride(entropy_coef: float) -> Objective:
    """Makes the policy loss of A-RIDE (DistRL). Advantages include penalties."""

    def objective(micro: MicroBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
        ours = micro.logp, micro.rollout_logp, micro.advantage, micro.mask, micro.weights
        return aride_loss(*ours, entropy_coef=entropy_coef)

    return objective


def clipped(settings: ClippedLossSection) -> Objective:
    """Makes the clipped policy loss plus `kl_coef` times the k3 estimate of the KL from the reference."""

    def objective(micro: MicroBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
        weights, masked = micro.weights, dict[str, Tensor]()
        if level := settings.mismatch_mask:
            kept = mismatch_mask(micro.old_logp, micro.rollout_logp, micro.mask, level, settings.mismatch_limits)
            masked = {"mismatch_frac": (weights * ~kept).sum()}
            weights = weights * kept
        if limits := settings.ratio_mask:
            kept = mismatch_mask(micro.logp, micro.rollout_logp, micro.mask, "token", limits)
            masked["ratio_mask_frac"] = (weights * ~kept).sum()
            weights = weights * kept
        loss, metrics = clipped_policy_loss(
            micro.logp,
            micro.old_logp,
            micro.advantage,
            micro.mask,
            clip_low=settings.clip_low,
            clip_high=torch.full_like(micro.advantage, settings.clip_high),  # a float would be copied to the GPU
            rollout_logp=micro.rollout_logp if settings.tis_cap is not None else None,
            is_cap=settings.tis_cap,
            weights=weights,
            dual_clip=settings.dual_clip,
            replayed=micro.replayed,
        )
        if micro.ref_logp is not None:
            kl = (micro.weights * kl_k3(micro.logp, micro.ref_logp)).sum()
            loss = loss + settings.kl_coef * kl
            metrics = {**metrics, "kl": kl.detach()}
        return loss, {**metrics, **masked}

    return objective


def with_rollout_gap(objective: Objective) -> Objective:
    """Adds metrics of the gap between rollout and trainer: the largest difference between the probabilities of a token,
    and sums of k3 and -log p, from which `learn` computes `rollout_k3` and `neg_logp`.

    They are only meaningful while the weights are those of the rollout: for the first optimizer step of an iteration
    and samples of the current version.
    """

    def measure(micro: MicroBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
        loss, metrics = objective(micro)
        with torch.no_grad():
            fresh = micro.mask.bool() & ~micro.off_policy.unsqueeze(1)
            gap = (micro.logp.exp() - micro.rollout_logp.exp()).abs()
            sums = {
                PROB_DIFF: gap.masked_fill(~fresh, 0.0).max(),
                FRESH_TOKENS: fresh.sum(),
                FRESH_SURPRISE: -micro.logp.masked_fill(~fresh, 0.0).sum(),
                FRESH_K3: kl_k3(micro.rollout_logp, micro.logp).masked_fill(~fresh, 0.0).sum(),
            }
        return loss, {**metrics, **sums}

    return measure
