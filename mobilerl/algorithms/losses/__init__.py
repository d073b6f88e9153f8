"""Losses over response tokens. A row is one sample (model call); tensors are padded to (R rows, L response tokens)."""

from mobilerl.algorithms.losses.aggregation import Aggregation, aggregation_weights
from mobilerl.algorithms.losses.clipped import clipped_policy_loss, kl_k3
from mobilerl.algorithms.losses.mismatch import mismatch_mask
from mobilerl.algorithms.losses.offpolicy import aride_loss, imitation_loss
from mobilerl.algorithms.losses.preference import action_logp, dpo_loss
from mobilerl.algorithms.losses.value import value_bce

__all__ = [
    "Aggregation",
    "action_logp",
    "aggregation_weights",
    "aride_loss",
    "clipped_policy_loss",
    "dpo_loss",
    "imitation_loss",
    "kl_k3",
    "mismatch_mask",
    "value_bce",
]
