"""DigiRL's advantages (arXiv 2406.11896, section 4) and the filters that select the actor's training data."""

from __future__ import annotations

import torch
from torch import Tensor

from mobilerl.algorithms.checks import in_unit_interval, same_length
from mobilerl.algorithms.shares import share_of


def doubly_robust_step(
    value: Tensor, next_value: Tensor, step_reward: Tensor, final_reward: Tensor, steps_to_go: Tensor, lam: float
) -> Tensor:
    """Step advantage that interpolates between a Monte-Carlo and a one-step estimate (DigiRL eq. 4.3).

        w_h = lam^(H - h) r_H,    A_h = w_h + (1 - w_h) (V(s_{h+1}) + r_h - V(s_h))

    With lam = 1 every step of a success has only the Monte-Carlo part, A = r_H = 1, regardless of the values. With
    lam = 0 every step except the last one of a success has only the one-step part, as do all steps of a failure. H is
    the actual last step, so the last step of a success (0^0 = 1) has A = 1.

    The released code uses V' - V + r + G - 0.05 clamped to [0, 1], with G a return discounted by 0.5 and no (1 - w).

    Args:
        value: (R,) V(s_h, c) in [0, 1], one per row.
        next_value: (R,) V(s_{h+1}, c); 0 after the last step.
        step_reward: (R,) r_h: the final reward at the last step of its trajectory, 0 before.
        final_reward: (R,) r_H of the row's trajectory, in [0, 1].
        steps_to_go: (R,) H - h >= 0 in steps; 0 for the last step.
        lam: in [0, 1]; 0.5 in the paper.

    Returns:
        (R,) advantages, in [-1, 1] if the only nonzero step rewards are those of last steps.
    """
    if not 0.0 <= lam <= 1.0:
        raise ValueError(f"lam must be in [0, 1], got {lam}")
    same_length(
        value=value, next_value=next_value, step_reward=step_reward, final_reward=final_reward, steps_to_go=steps_to_go
    )
    in_unit_interval(value=value, next_value=next_value, final_reward=final_reward)
    if (steps_to_go < 0).any():
        raise ValueError(f"steps_to_go must not be negative, got {steps_to_go.min().item()}")
    discount = torch.full_like(value, lam) ** steps_to_go.to(value.dtype)
    w = discount * final_reward
    return w + (1 - w) * (next_value + step_reward - value)


def instruction_advantage(final_reward: Tensor, instruction_value: Tensor) -> Tensor:
    """Instruction-level advantage: A = r_H - V(c) (DigiRL eq. 4.4).

    Takes (B,) final rewards and instruction values, both in [0, 1]; returns (B,) in [-1, 1]. The paper's sum of rewards
    from step h on equals r_H, since the only reward comes with the last step.
    """
    same_length(final_reward=final_reward, instruction_value=instruction_value)
    in_unit_interval(final_reward=final_reward, instruction_value=instruction_value)
    return final_reward - instruction_value


def keep_steps(advantage: Tensor, step_limit: int) -> Tensor:
    """DigiRL's step filter: (R,) bool, True where A_step > 1 / H.

    H is `step_limit`, the maximum length of an episode rather than its actual length: 10 and 20 in the paper. The
    released code subtracts 0.05 whatever H is, which equals 1 / H only for H = 20.
    """
    if step_limit < 1:
        raise ValueError(f"step_limit must be at least 1, got {step_limit}")
    return advantage > 1.0 / step_limit


def keep_trajectories(advantage: Tensor, success: Tensor, top_p: float) -> Tensor:
    """DigiRL's instruction filter: keeps the top `top_p` of trajectories by A_instr, successes only.

    The threshold is the ceil(top_p * B)-th largest advantage among successes. Ties with it are all kept, so the order
    of the batch does not matter. With fewer successes than that, all successes are kept and nothing else. The released
    code instead compares with a quantile of all rewards, which is 0 as soon as successes are rarer than top_p, and then
    keeps every failure; this is why `success` is a separate argument. The paper does not publish its top_p; the
    released code uses 0.1.

    With final rewards as `advantage`, this is the filter of filtered behavior cloning. top_p = 1 keeps every success.

    Args:
        advantage: (B,) from `instruction_advantage`.
        success: (B,) bool.
        top_p: fraction in (0, 1].

    Returns:
        (B,) bool.
    """
    if not 0.0 < top_p <= 1.0:
        raise ValueError(f"top_p must be in (0, 1], got {top_p}")
    same_length(advantage=advantage, success=success)
    success = success.bool()
    if not success.any():
        return success
    room = share_of(len(advantage), top_p)
    best = advantage[success].sort(descending=True).values[:room]
    return success & (advantage >= best[-1])
