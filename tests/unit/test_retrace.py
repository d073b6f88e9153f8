"""DistRL's returns, penalties and corrected values."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mobilerl.algorithms.advantages import (
    distrl_reward,
    keep_highest,
    monte_carlo_return,
    retrace_delta,
    retrace_target,
    td_error,
)
from mobilerl.algorithms.rewards import step_penalties

torch.set_num_threads(1)


def f64(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


VALUE, NEXT, REWARD = f64(0.2, 0.5, 0.4), f64(0.5, 0.4, 0.0), f64(0, 0, 1)


def test_monte_carlo_return_golden():
    assert monte_carlo_return(REWARD, 0.9).tolist() == pytest.approx([0.81, 0.9, 1.0])
    # 1 + 0.5 (2 + 0.5 * 4) = 3; 2 + 0.5 * 4 = 4; 4.
    assert monte_carlo_return(f64(1, 2, 4), 0.5).tolist() == pytest.approx([3.0, 4.0, 4.0])
    assert monte_carlo_return(f64(1, 2, 4), 0.0).tolist() == [1.0, 2.0, 4.0]


def test_td_error_golden():
    # 0.9 * 0.5 - 0.2 = 0.25;  0.9 * 0.4 - 0.5 = -0.14;  1 - 0.4 = 0.6.
    assert td_error(VALUE, NEXT, REWARD, 0.9).tolist() == pytest.approx([0.25, -0.14, 0.6])


def test_retrace_golden():
    # c_2 = 0.8 min(1, 0.5) = 0.4, c_3 = 0.8 min(1, 2) = 0.8; the first ratio is in no product.
    # D_3 = 0.6;  D_2 = -0.14 + 0.9 * 0.8 * 0.6 = 0.292;  D_1 = 0.25 + 0.9 * 0.4 * 0.292 = 0.35512.
    ratio = f64(3.0, 0.5, 2.0)
    args = (VALUE, NEXT, REWARD, ratio, 0.9, 0.8)
    assert retrace_delta(*args).tolist() == pytest.approx([0.35512, 0.292, 0.6])
    assert retrace_target(*args).tolist() == pytest.approx([0.55512, 0.792, 1.0])
    assert torch.equal(retrace_delta(*args), retrace_delta(VALUE, NEXT, REWARD, f64(0, 0.5, 2), 0.9, 0.8))


NUMBERS = st.floats(-2, 2)
TRAJECTORIES = st.lists(st.tuples(NUMBERS, NUMBERS, st.floats(0, 5)), min_size=1, max_size=12)


def tensors(steps, bootstrap=0.0):
    value, reward, ratio = (f64(*column) for column in zip(*steps, strict=True))
    return value, torch.cat([value[1:], f64(bootstrap)]), reward, ratio


@settings(max_examples=100)
@given(TRAJECTORIES, st.floats(0, 1))
def test_with_ratios_and_lambda_one_it_is_the_monte_carlo_return(steps, gamma):
    value, next_value, reward, _ = tensors(steps)
    got = retrace_target(value, next_value, reward, torch.ones_like(value), gamma, lam=1.0)
    torch.testing.assert_close(got, monte_carlo_return(reward, gamma))
    # Ratios above 1 are cut to 1: the same.
    torch.testing.assert_close(retrace_target(value, next_value, reward, value.abs() + 1, gamma, 1.0), got)


@settings(max_examples=50)
@given(TRAJECTORIES, st.floats(0, 1), NUMBERS)
def test_a_cut_off_episode_bootstraps_from_its_last_value(steps, gamma, bootstrap):
    value, next_value, reward, _ = tensors(steps, bootstrap)
    got = retrace_target(value, next_value, reward, torch.ones_like(value), gamma, lam=1.0)
    discount = f64(*(gamma ** (len(steps) - t) for t in range(len(steps))))
    torch.testing.assert_close(got, monte_carlo_return(reward, gamma) + discount * bootstrap)


@settings(max_examples=100)
@given(TRAJECTORIES, st.floats(0, 1), st.floats(0, 1))
def test_equals_the_sum_of_products(steps, gamma, lam):
    value, next_value, reward, ratio = tensors(steps)
    got = retrace_delta(value, next_value, reward, ratio, gamma, lam)
    c = [lam * min(1.0, r) for r in ratio.tolist()]
    for t in range(len(steps)):
        expected = 0.0
        for k in range(t, len(steps)):
            product = 1.0
            for i in range(t + 1, k + 1):
                product *= c[i]
            expected += gamma ** (k - t) * product * (reward[k] + gamma * next_value[k] - value[k]).item()
        assert got[t].item() == pytest.approx(expected, abs=1e-9)
    torch.testing.assert_close(
        retrace_delta(value, next_value, reward, ratio, gamma, 0.0), td_error(value, next_value, reward, gamma)
    )


def test_true_values_need_no_correction_whatever_the_ratios():
    value = monte_carlo_return(f64(0, 0, 0, 1), 0.9)
    delta = retrace_delta(value, torch.cat([value[1:], f64(0)]), f64(0, 0, 0, 1), f64(9, 0.1, 0, 3), 0.9, 0.7)
    assert delta.tolist() == pytest.approx([0.0] * 4, abs=1e-12)


def test_targets_carry_no_gradient():
    value = VALUE.clone().requires_grad_()
    assert not retrace_target(value, NEXT, REWARD, f64(1, 1, 1), 0.9, 1.0).requires_grad


def test_distrl_reward_and_advantage_golden():
    # G = 0.81, 0.9, 1; the second step costs 0.4.
    penalty = f64(0, -0.4, 0)
    assert distrl_reward(REWARD, penalty, 0.9).tolist() == pytest.approx([0.81, 0.5, 1.0])
    assert distrl_reward(REWARD, penalty, 0.9, mode="td").tolist() == pytest.approx([0.0, -0.4, 1.0])
    # A = 0.81 + 0.45 - 0.2 = 1.06;  0.5 + 0.36 - 0.5 = 0.36;  1 - 0.4 = 0.6.
    advantage = td_error(VALUE, NEXT, distrl_reward(REWARD, penalty, 0.9), 0.9)
    assert advantage.tolist() == pytest.approx([1.06, 0.36, 0.6])


def test_trajectory_filter_golden():
    value = f64(0.1, 0.9, 0.5, 0.5, 0.2)
    assert keep_highest(value, 0.2).tolist() == [False, True, False, False, False]
    assert keep_highest(value, 0.4).tolist() == [False, True, True, True, False], "ties are kept together"
    assert keep_highest(value, 1.0).all() and not len(keep_highest(f64(), 0.5))
    assert keep_highest(torch.arange(30), 0.1).sum() == 3
    with pytest.raises(ValueError, match="top_p"):
        keep_highest(value, 0.0)


def test_step_penalties_golden():
    # Repeats of "tap 1 1" cost 0.4, 0.8, then the cap 1.0; "back" starts again; an invalid action costs 1 more.
    keys = ["tap 1 1", "tap 1 1", "tap 1 1", "tap 1 1", "back", "type ", "type "]
    invalid = [False, False, False, False, False, True, True]
    got = step_penalties(keys, invalid, per_repeat=0.4, repeat_cap=1.0, per_invalid=1.0)
    assert got == pytest.approx([0, -0.4, -0.8, -1.0, 0, -1.0, -1.4])
    with pytest.raises(ValueError, match="7 actions but 1 marks"):
        step_penalties(keys, [True], 0.4, 1.0, 1.0)
    with pytest.raises(ValueError, match="per_invalid"):
        step_penalties(keys, invalid, 0.4, 1.0, -1.0)


def test_bad_input_is_named():
    one = f64(1, 1, 1)
    with pytest.raises(ValueError, match="lam must be in"):
        retrace_delta(VALUE, NEXT, REWARD, one, 0.9, 1.1)
    with pytest.raises(ValueError, match="gamma must be in"):
        monte_carlo_return(REWARD, -0.1)
    with pytest.raises(ValueError, match="ratio must not be negative"):
        retrace_delta(VALUE, NEXT, REWARD, -one, 0.9, 1.0)
    with pytest.raises(ValueError, match="ratio has shape"):
        retrace_delta(VALUE, NEXT, REWARD, one[:1], 0.9, 1.0)
    with pytest.raises(ValueError, match="unknown reward mode 'sum'"):
        distrl_reward(REWARD, REWARD, 0.9, mode="sum")
