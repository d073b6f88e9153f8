"""Credit of steps in hindsight of a solved episode."""

from __future__ import annotations

import torch
from torch import Tensor

from mobilerl.algorithms.checks import same_length


def hindsight_advantage(advantage: Tensor, gap: Tensor, beta: float) -> Tensor:
    """Advantages gated by how much likelier the policy finds a step once it was told a solution.

        gain = mean over the response's tokens of log pi(token | prompt, solution) - log pi(token | prompt)
        gap  = gain - mean of gain over the steps that are compared
        g    = sigmoid(beta gap)
        A'   = 2 g A for A > 0,    2 (1 - g) A for A < 0

    A step that agrees with the solution gets more of the credit and less of the blame; with a gap of 0, A' = A, and the
    sign never changes. Scoring one's own tokens after being shown a solved episode is that of HCAPO (arXiv 2603.08754)
    and SDAR (2605.15155), the sigmoid gate that of SDAR. SDAR gates a distillation loss of every token by its gain;
    here the gate is one per step, relative to the others, and there is no further loss.

    Args:
        advantage: (R,), one per step.
        gap: (R,) in nats; 0 where there is none.
        beta: > 0.

    Returns:
        (R,) in advantage's dtype.
    """
    same_length(advantage=advantage, gap=gap)
    if beta <= 0:
        raise ValueError(f"beta must be above 0, got {beta}")
    gate = torch.sigmoid(beta * gap.to(advantage.dtype))
    return 2.0 * torch.where(advantage > 0, gate, 1.0 - gate) * advantage
