"""Loss of value functions."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from mobilerl.algorithms.checks import in_unit_interval, same_length


def value_bce(value_logit: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of a value V = sigmoid(value_logit) against a target in [0, 1] (DigiRL eq. 4.5 and 4.6, DistRL).

        loss = -mean [ y log V + (1 - y) log(1 - V) ]

    Both are (R,); no gradient flows into the target: the final reward r_H for DigiRL's values and DistRL's trajectory
    value, 1[G_t > 0] or a clamped `advantages.retrace_target` for DistRL's state value. Returns a 0-d tensor in nats.
    DigiRL's released code trains four outputs of two networks and takes the smaller value; the papers have one.
    """
    same_length(value_logit=value_logit, target=target)
    if not len(target):
        raise ValueError("value_bce needs at least one target")
    in_unit_interval(target=target)
    logit = value_logit.to(torch.promote_types(value_logit.dtype, torch.float32))
    return F.binary_cross_entropy_with_logits(logit, target.to(logit.dtype).detach())
