"""Rewards, returns and advantages against hand-computed numbers and against their equations."""

import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mobilerl.algorithms.advantages import (
    distrl_reward,
    doubly_robust_step,
    gae,
    group_relative,
    informative,
    instruction_advantage,
    keep_highest,
    keep_steps,
    keep_trajectories,
    monte_carlo_return,
    retrace_delta,
    retrace_target,
    td_error,
)
from mobilerl.algorithms.rewards import repetition_penalty, shortest_path_adjustment, step_penalties

torch.set_num_threads(1)


def f64(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


# --- relative to a group -------------------------------------------------------------------------------------------


def test_constant_groups_and_groups_of_one_are_exactly_zero():
    # The mean of three 0.1 is 0.10000000000000002: divided by a small eps the rounding would look like an advantage.
    reward, group = f64(0.1, 0.1, 0.1, 0.7), torch.tensor([0, 0, 0, 1])
    assert group_relative(reward, group, eps=1e-12).tolist() == [0.0] * 4
    assert not informative(reward, group).any()
    assert group_relative(torch.empty(0), torch.empty(0, dtype=torch.long)).shape == (0,)


BATCHES = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.6, 1.0]), st.integers(-2, 3)), min_size=1, max_size=24)


@settings(max_examples=100)
@given(BATCHES, st.randoms(use_true_random=False))
def test_group_relative_equals_its_equation_in_any_order(batch, random):
    batch = random.sample(batch, len(batch))
    reward, group = f64(*(r for r, _ in batch)), torch.tensor([g for _, g in batch])
    got, informs = group_relative(reward, group).tolist(), informative(reward, group)
    for i, (r, g) in enumerate(batch):
        members = [rj for rj, gj in batch if gj == g]
        assert got[i] == pytest.approx((r - statistics.fmean(members)) / (statistics.pstdev(members) + 1e-6), abs=1e-9)
        assert informs[i].item() == (len(set(members)) > 1)
    assert torch.equal(informs, informative(torch.tensor(got), group))


# --- shaped rewards ------------------------------------------------------------------------------------------------


def spa(reward, length, group, alpha=1.0):
    return shortest_path_adjustment(f64(*reward), torch.tensor(length), torch.tensor(group), alpha)


def test_shortest_path_adjustment_golden():
    # The paper's figure, T_min = 2: T=2 gives 1, T=3 gives 1 - 1/3; the failure stays 0 although it is shortest.
    assert spa([1, 1, 0], [2, 3, 1], [0, 0, 0]).tolist() == pytest.approx([1.0, 2 / 3, 0.0])
    # Group 7 (items 0, 2, 4): T_min 4. T=8: 1 - 0.5*4/8 = 0.75; T=4: 1; T=5: 1 - 0.5*1/5 = 0.9.
    # Group -3 (items 1, 3): T_min 10. T=10: 1; T=40, r=0.5: 0.5 * (1 - 0.5*30/40) = 0.3125.
    got = spa([1, 1, 1, 0.5, 1], [8, 10, 4, 40, 5], [7, -3, 7, -3, 7], alpha=0.5)
    assert got.tolist() == pytest.approx([0.75, 1.0, 1.0, 0.3125, 0.9])
    assert spa([0, 0], [3, 5], [1, 1]).tolist() == [0.0, 0.0]


def test_penalties_golden():
    # Repeats: 1, 2, 3 (0.75, capped at 0.6); another action starts again from 0.
    assert repetition_penalty("aaaabaa", per_repeat=0.25, cap=0.6) == [0.0, -0.25, -0.5, -0.6, 0.0, 0.0, -0.25]
    assert repetition_penalty([], 0.4, 1.0) == []
    # Repeats of "tap" cost 0.4, 0.8, then the cap 1.0; an invalid action costs 1 more.
    keys, invalid = ["tap", "tap", "tap", "tap", "back", "type", "type"], [False] * 5 + [True] * 2
    got = step_penalties(keys, invalid, per_repeat=0.4, repeat_cap=1.0, per_invalid=1.0)
    assert got == pytest.approx([0, -0.4, -0.8, -1.0, 0, -1.0, -1.4])


# --- DigiRL --------------------------------------------------------------------------------------------------------

WON, LOST = f64(0, 0, 1), f64(0, 0, 0)


def step_advantages(rewards, lam):
    value, next_value = f64(0.45, 0.5, 0.8), f64(0.5, 0.8, 0.0)
    final = rewards[-1].expand(3)
    return doubly_robust_step(value, next_value, rewards, final, torch.tensor([2, 1, 0]), lam)


def test_doubly_robust_golden():
    # Success, lam 0.5: w = 0.25, 0.5, 1.
    # A = 0.25 + 0.75 (0.5 - 0.45) = 0.2875;  0.5 + 0.5 (0.8 - 0.5) = 0.65;  1 + 0 (...) = 1.
    assert step_advantages(WON, 0.5).tolist() == pytest.approx([0.2875, 0.65, 1.0])
    # lam 1 is the Monte-Carlo part; lam 0 the one-step part, but for a success's last step, where w = 0^0 = 1.
    assert step_advantages(WON, 1.0).tolist() == [1.0, 1.0, 1.0]
    assert step_advantages(WON, 0.0).tolist() == pytest.approx([0.05, 0.3, 1.0])
    for lam in (0.0, 0.5, 1.0):  # failure: w = 0
        assert step_advantages(LOST, lam).tolist() == pytest.approx([0.05, 0.3, -0.8])
    # The step filter: strictly above 1 / H.
    assert keep_steps(step_advantages(LOST, 0.5), step_limit=10).tolist() == [False, True, False]
    assert keep_steps(f64(0.25), step_limit=4).tolist() == [False]


def test_instruction_advantage_golden():
    got = instruction_advantage(f64(1, 1, 0, 0), f64(0.25, 0.9, 0.25, 0.9))
    assert got.tolist() == pytest.approx([0.75, 0.1, -0.25, -0.9])
    # exp(0.5 / 0.5) = e, exp(-1 / 0.5) = e^-2; exp(1 / 0.05) = e^20 is capped at 20.


def test_trajectory_filter_golden():
    # Ten trajectories, five successes: 0.2 of them are two, the two of largest advantage.
    advantage = f64(-0.1, 0.5, 0.9, -0.4, 0.7, 0.6, -0.2, 0.8, -0.3, -0.5)
    won = advantage > 0
    assert keep_trajectories(advantage, won, top_p=0.2).nonzero().flatten().tolist() == [2, 7]
    assert keep_trajectories(advantage, won, top_p=0.01).nonzero().flatten().tolist() == [2]  # never nothing
    # One success in twenty: the 0.9-quantile of the rewards is 0, and `reward >= quantile` would keep all twenty.
    reward = torch.eye(20)[13]
    assert keep_trajectories(reward, reward > 0.5, top_p=0.1).nonzero().flatten().tolist() == [13]
    assert not keep_trajectories(torch.zeros(20), torch.zeros(20, dtype=torch.bool), top_p=0.1).any()


# --- DistRL --------------------------------------------------------------------------------------------------------

VALUE, NEXT, REWARD = f64(0.2, 0.5, 0.4), f64(0.5, 0.4, 0.0), f64(0, 0, 1)


def test_returns_and_one_step_advantages_golden():
    assert monte_carlo_return(REWARD, 0.9).tolist() == pytest.approx([0.81, 0.9, 1.0])
    assert monte_carlo_return(f64(1, 2, 4), 0.5).tolist() == pytest.approx([3.0, 4.0, 4.0])
    # 0.9 * 0.5 - 0.2 = 0.25;  0.9 * 0.4 - 0.5 = -0.14;  1 - 0.4 = 0.6.
    assert td_error(VALUE, NEXT, REWARD, 0.9).tolist() == pytest.approx([0.25, -0.14, 0.6])
    # G = 0.81, 0.9, 1; the second step costs 0.4.
    penalty = f64(0, -0.4, 0)
    assert distrl_reward(REWARD, penalty, 0.9).tolist() == pytest.approx([0.81, 0.5, 1.0])


def test_retrace_golden():
    # c_2 = 0.8 min(1, 0.5) = 0.4, c_3 = 0.8 min(1, 2) = 0.8; the first ratio is in no product.
    # D_3 = 0.6;  D_2 = -0.14 + 0.9 * 0.8 * 0.6 = 0.292;  D_1 = 0.25 + 0.9 * 0.4 * 0.292 = 0.35512.
    value = VALUE.clone().requires_grad_()
    target = retrace_target(value, NEXT, REWARD, f64(3.0, 0.5, 2.0), 0.9, 0.8)
    assert target.tolist() == pytest.approx([0.55512, 0.792, 1.0]) and not target.requires_grad


STEPS = st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2), st.floats(0, 5)), min_size=1, max_size=12)


@settings(max_examples=100)
@given(STEPS, st.floats(0, 1), st.floats(0, 1), st.floats(-2, 2))
def test_retrace_equals_its_sum_of_products(steps, gamma, lam, bootstrap):
    value, reward, ratio = (f64(*column) for column in zip(*steps, strict=True))
    next_value = torch.cat([value[1:], f64(bootstrap)])
    got = retrace_delta(value, next_value, reward, ratio, gamma, lam)
    c = [lam * min(1.0, r) for r in ratio.tolist()]
    delta = td_error(value, next_value, reward, gamma).tolist()
    for t in range(len(steps)):
        expected = sum(gamma ** (k - t) * math.prod(c[t + 1 : k + 1]) * delta[k] for k in range(t, len(steps)))
        assert got[t].item() == pytest.approx(expected, abs=1e-9)
    # With ratios of at least 1 and lambda 1 it is the Monte-Carlo return, bootstrapped where the episode was cut off.
    on_policy = retrace_target(value, next_value, reward, ratio + 1, gamma, lam=1.0)
    discount = f64(*(gamma ** (len(steps) - t) for t in range(len(steps))))
    torch.testing.assert_close(on_policy, monte_carlo_return(reward, gamma) + discount * bootstrap)


def test_trajectory_value_filter_golden():
    value = f64(0.1, 0.9, 0.5, 0.5, 0.2)
    assert keep_highest(value, 0.2).tolist() == [False, True, False, False, False]
    assert keep_highest(value, 0.4).tolist() == [False, True, True, True, False], "ties are kept together"
    assert keep_highest(value, 1.0).all() and not len(keep_highest(f64(), 0.5))


def test_generalized_advantages_golden():
    """V = 0.5, 0.25, 0.75 and a success: delta = -0.25, 0.5, 0.25; lam = 0.5: 0.25, 0.5 + 0.125, -0.25 + 0.3125."""
    reward, value = f64(0, 0, 1), f64(0.5, 0.25, 0.75)
    assert gae(reward, value, lam=0.5).tolist() == pytest.approx([0.0625, 0.625, 0.25])
    assert gae(reward, value, lam=1.0).tolist() == pytest.approx([0.5, 0.75, 0.25]), "the return minus the value"
    # gamma = 0.5: delta = 0.125 - 0.5, 0.375 - 0.25, 1 - 0.75; times 0.25 for each step ahead
    assert gae(reward, value, lam=0.5, gamma=0.5).tolist() == pytest.approx([-0.328125, 0.1875, 0.25])
