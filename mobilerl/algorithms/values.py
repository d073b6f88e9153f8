"""Value functions on frozen features: small networks whose gradients do not reach the policy.

A feature is one vector per row, computed once by the policy's own encoders (of screens and text) and cached by the
caller; this module knows no model. Features should have about unit scale.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mobilerl.algorithms.checks import in_unit_interval, same_length
from mobilerl.algorithms.losses.value import value_bce

MIN_VALUE = 1e-4
"""Values are clamped to [MIN_VALUE, 1 - MIN_VALUE], as in DigiRL's released code."""


class ValueHead(nn.Module):
    """Probability of success, V = sigmoid(MLP(features)): two layers on the concatenated features.

    The papers have such an MLP on frozen image and text features; DigiRL's released code has three layers and takes the
    smaller value of two networks. The state includes the number of successes seen in training: a head that never saw
    one predicts failure for everything, and filters and advantages computed from it are meaningless.

    Args:
        sizes: sizes of the feature vectors, in the order of `forward`'s arguments.
        hidden: size of the hidden layer.
    """

    def __init__(self, sizes: Sequence[int], hidden: int = 256) -> None:
        super().__init__()
        if not sizes or min(sizes) < 1 or hidden < 1:
            raise ValueError(f"value head: sizes and hidden must be at least 1, got {list(sizes)} and {hidden}")
        self.sizes = tuple(sizes)
        self.mlp = nn.Sequential(nn.Linear(sum(sizes), hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.register_buffer("successes", torch.zeros((), dtype=torch.long))
        self.successes: Tensor
        """Number of targets above 0.5 in all training steps so far."""

    @property
    def ready(self) -> bool:
        """Whether the head was trained with at least one success."""
        return bool(self.successes > 0)

    def forward(self, *features: Tensor) -> Tensor:
        """Maps features, (R, size) each, to (R,) logits."""
        dtype = next(self.mlp.parameters()).dtype
        for name, feature, size in zip(range(len(self.sizes)), features, self.sizes, strict=True):
            if feature.dim() != 2 or feature.shape[1] != size:
                raise ValueError(f"value head: feature {name} has shape {tuple(feature.shape)}, not (rows, {size})")
        return self.mlp(torch.cat([f.to(dtype) for f in features], dim=1)).squeeze(1)

    @torch.no_grad()
    def predict(self, *features: Tensor) -> Tensor:
        """(R,) values in [MIN_VALUE, 1 - MIN_VALUE], without gradient. Raises ValueError unless the head is `ready`."""
        if not self.ready:
            raise ValueError(
                "value function: it was never trained with a success, so its values mean nothing; "
                "collect until a task is solved, or start from a better SFT checkpoint"
            )
        return self(*features).sigmoid().clamp(MIN_VALUE, 1.0 - MIN_VALUE)


class InstructionValue(ValueHead):
    """Value V(c) of an instruction (DigiRL eq. 4.5): `forward(instruction)`, with (R, text_size) features."""

    def __init__(self, text_size: int, hidden: int = 256) -> None:
        super().__init__((text_size,), hidden)


class StepValue(ValueHead):
    """Value V(s, c) of a state given an instruction (DigiRL eq. 4.6, DistRL): `forward(state, instruction)`.

    `state` is (R, state_size): the concatenated features of the last two screens (for the first step, of its screen
    twice) and of the prompt's text. DistRL's trajectory value is the same head applied to the last state; the paper's
    V_traj(s_H, a_H) also depends on the last action, which is left out here.
    """

    def __init__(self, state_size: int, text_size: int, hidden: int = 256) -> None:
        super().__init__((state_size, text_size), hidden)


def train_step(
    head: ValueHead,
    optimizer: torch.optim.Optimizer,
    features: Sequence[Tensor],
    target: Tensor,
    max_grad_norm: float | None = None,
) -> dict[str, float]:
    """Takes one cross-entropy step of a value head (`losses.value_bce`).

    Raises ValueError for NaN, a target outside [0, 1] or a gradient that is not finite, before anything is changed.

    Args:
        features: as for `head.forward`, (R, size) each; no gradient flows into them.
        target: (R,) in [0, 1], see `losses.value_bce`.
        max_grad_norm: maximum gradient norm; None disables clipping.

    Returns:
        `loss`, `grad_norm` before clipping, `value_mean`, `target_mean`, and `successes_seen` in all steps so far;
        while that is 0 the head is not `ready`.
    """
    for name, feature in enumerate(features):
        if not torch.isfinite(feature).all():
            raise ValueError(f"value head: feature {name} holds NaN or infinity")
    same_length(target=target)
    in_unit_interval(target=target)
    optimizer.zero_grad(set_to_none=True)
    logit = head(*(feature.detach() for feature in features))
    loss = value_bce(logit, target)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(head.parameters(), torch.inf if max_grad_norm is None else max_grad_norm)
    if not torch.isfinite(norm):
        optimizer.zero_grad(set_to_none=True)
        raise ValueError("value head: the gradient is not finite; lower the learning rate or scale the features")
    optimizer.step()
    head.successes += (target > 0.5).sum()
    return {
        "loss": float(loss.detach()),
        "grad_norm": float(norm),
        "value_mean": float(logit.detach().sigmoid().mean()),
        "target_mean": float(target.float().mean()),
        "successes_seen": float(head.successes),
    }
