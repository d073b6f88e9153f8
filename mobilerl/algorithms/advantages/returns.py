"""Returns and corrected values of one trajectory (DistRL, arXiv 2410.14803).

All tensors are (T,), one value per step in order; r_t is the reward of action a_t, so a success has its reward at the
last step. Results are in float64 if the values are, and carry no gradient, since they are targets.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mobilerl.algorithms.checks import same_length
from mobilerl.algorithms.shares import share_of


def monte_carlo_return(reward: Tensor, gamma: float) -> Tensor:
    """Discounted return G_t = sum_{k >= t} gamma^(k - t) r_k. DistRL labels its state value with 1[G_t > 0]."""
    _check_share("gamma", gamma)
    same_length(reward=reward)
    reward = reward if reward.is_floating_point() else reward.to(torch.get_default_dtype())
    return _discounted_sum(reward, torch.full_like(reward, gamma))


def td_error(value: Tensor, next_value: Tensor, reward: Tensor, gamma: float) -> Tensor:
    """TD error r_t + gamma V(s_{t+1}) - V(s_t): DistRL's one-step advantage, and delta_t of Retrace and DPER.

    `next_value` is the value of the state after the step. For the last step it is 0 if the episode ended, and the value
    of the final state if it was truncated. For the advantage, `reward` comes from `distrl_reward`.
    """
    _check_share("gamma", gamma)
    same_length(value=value, next_value=next_value, reward=reward)
    return (reward + gamma * next_value - value).detach()


def distrl_reward(step_reward: Tensor, penalty: Tensor, gamma: float) -> Tensor:
    """Reward in DistRL's one-step advantage: G_t + penalty_t.

    The return replaces the reward of one step. Since the advantage also bootstraps from V(s_{t+1}), it counts a success
    twice. In the paper the return starts at t + 1, because its rewards belong to the state that an action leads to;
    here they belong to the action. The released code adds both r_t and G_t, and subtracts 0.05 per step.

    Penalties (<= 0, from `rewards.step_penalties`) are not part of the return: they only affect their own step.
    """
    same_length(step_reward=step_reward, penalty=penalty)
    return monte_carlo_return(step_reward, gamma) + penalty


def retrace_delta(value: Tensor, next_value: Tensor, reward: Tensor, ratio: Tensor, gamma: float, lam: float) -> Tensor:
    """Correction that Retrace(lam) adds to the value of each step (Munos et al. 2016; DistRL section 4).

        D_t = sum_{k >= t} gamma^(k - t) (prod_{i = t+1..k} c_i) (r_k + gamma V(s_{k+1}) - V(s_k))
            = delta_t + gamma c_{t+1} D_{t+1},    c_i = lam min(1, rho_i)

    The first step's ratio is not used (an empty product is 1). With all ratios 1 and lam 1, V + D is the Monte-Carlo
    return (plus gamma^(T - t) times the value that a truncated episode bootstraps from); with lam 0, D is `td_error`.
    `reward` holds the plain step rewards; penalties and the return of `distrl_reward` belong to the advantage.

    The released code has no lam and also multiplies each delta by min(1, rho_k), which is V-trace with both caps at 1.

    Args:
        value: (T,) V(s_t).
        next_value: (T,) V(s_{t+1}); the last one as in `td_error`.
        reward: (T,) r_t.
        ratio: (T,) rho_t = pi(a_t|s_t) / mu(a_t|s_t) >= 0, of whole actions.
        gamma, lam: in [0, 1].

    Returns:
        (T,) D_t.
    """
    _check_share("lam", lam)
    delta = td_error(value, next_value, reward, gamma)
    same_length(value=value, ratio=ratio)
    if (ratio < 0).any():
        raise ValueError(f"ratio must not be negative, got {ratio.min().item():g}")
    return _discounted_sum(delta, gamma * lam * ratio.clamp(max=1.0))


def gae(reward: Tensor, value: Tensor, lam: float, gamma: float = 1.0) -> Tensor:
    """Generalized advantage estimate over the steps of an episode that ended (Schulman et al. 2016, eq. 16).

        A_t = sum_{k >= t} (gamma lam)^(k - t) delta_k,    delta_t = r_t + gamma V(s_{t+1}) - V(s_t),    V(s_{T+1}) = 0

    With lam 1 and gamma 1 it is the return minus the value of the state; with lam 0, `td_error`. It is `retrace_delta`
    on policy.

    Args:
        reward: (T,) r_t.
        value: (T,) V(s_t).
        lam, gamma: in [0, 1].

    Returns:
        (T,) A_t.
    """
    next_value = torch.cat([value[1:], value.new_zeros(1)])
    return retrace_delta(value, next_value, reward, torch.ones_like(value), gamma, lam)


def retrace_target(
    value: Tensor, next_value: Tensor, reward: Tensor, ratio: Tensor, gamma: float, lam: float
) -> Tensor:
    """(T,) corrected values V(s_t) + D_t; arguments as in `retrace_delta`.

    The result can lie outside [0, 1]: clamp it before `losses.value_bce`.
    """
    return value.detach() + retrace_delta(value, next_value, reward, ratio, gamma, lam)


def keep_highest(value: Tensor, top_p: float) -> Tensor:
    """DistRL's trajectory filter: (N,) bool, True for the ceil(top_p * N) largest trajectory values and ties with them.

    The paper keeps "high-value trajectories" in the buffer and does not publish the fraction. `value` is (N,) V_traj of
    the last state, or its logit; top_p is in (0, 1], where 1 keeps all.
    """
    if not 0.0 < top_p <= 1.0:
        raise ValueError(f"top_p must be in (0, 1], got {top_p}")
    same_length(value=value)
    if not len(value):
        return torch.zeros(0, dtype=torch.bool)
    return value >= value.sort(descending=True).values[share_of(len(value), top_p) - 1]


def _discounted_sum(terms: Tensor, factor: Tensor) -> Tensor:
    """Computes x_t = terms_t + factor_{t+1} x_{t+1} backwards from the last step."""
    total = torch.empty_like(terms)
    carried = terms.new_zeros(())
    for t in reversed(range(len(terms))):
        carried = terms[t].detach() + carried
        total[t] = carried
        carried = factor[t].detach() * carried
    return total


def _check_share(name: str, number: float) -> None:
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{name} must be in [0, 1], got {number}")
