"""Losses as functions of a micro-batch: they only put the pieces of `losses` together."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mobilerl.algorithms.losses import aride_loss, clipped_policy_loss, imitation_loss, kl_k3
from mobilerl.config.algorithms import ClippedLossSection
from mobilerl.records import MicroBatch, Objective

PROB_DIFF = "rollout_prob_diff_max"


def imitation(micro: MicroBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Maximum likelihood, every sample weighted by its advantage (Filtered BC, DigiRL, AWR)."""
    return imitation_loss(micro.logp, micro.mask, micro.advantage, micro.weights)


def aride(micro: MicroBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Policy loss of A-RIDE (DistRL). Penalties are part of the advantage; no entropy term, as in the released code."""
    return aride_loss(micro.logp, micro.rollout_logp, micro.advantage, micro.mask, micro.weights)


def clipped(settings: ClippedLossSection) -> Objective:
    """Clipped policy loss, plus `kl_coef` times the k3 divergence from the reference."""

    def objective(micro: MicroBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
        loss, metrics = clipped_policy_loss(
            micro.logp,
            micro.old_logp,
            micro.advantage,
            micro.mask,
            clip_low=settings.clip_low,
            clip_high=settings.clip_high,
            rollout_logp=micro.rollout_logp if settings.is_cap is not None else None,
            is_cap=settings.is_cap,
            weights=micro.weights,
        )
        if micro.ref_logp is not None:
            kl = (micro.weights * kl_k3(micro.logp, micro.ref_logp)).sum()
            loss = loss + settings.kl_coef * kl
            metrics = {**metrics, "kl": kl.detach()}
        return loss, metrics

    return objective


def with_prob_diff(objective: Objective) -> Objective:
    """Also measures the largest gap between a token's probability in the rollout and in the trainer.

    Only meaningful before the weights have moved since the rollout: for the first optimiser step of an iteration, and
    samples drawn by its weights.
    """

    def measured(micro: MicroBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
        loss, metrics = objective(micro)
        with torch.no_grad():
            fresh = micro.mask.bool() & ~micro.older.unsqueeze(1)
            gap = (micro.logp.exp() - micro.rollout_logp.exp()).abs()
            largest = gap.masked_fill(~fresh, 0.0).max()
        return loss, {**metrics, PROB_DIFF: largest}

    return measured
