"""DigiRL's advantages and the rules of what is learned from."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mobilerl.algorithms.advantages import (
    doubly_robust_step,
    instruction_advantage,
    keep_steps,
    keep_trajectories,
    soft_weight,
)

torch.set_num_threads(1)


def f64(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


VALUE, NEXT = f64(0.45, 0.5, 0.8), f64(0.5, 0.8, 0.0)
TO_GO = torch.tensor([2, 1, 0])


def success(lam):
    return doubly_robust_step(VALUE, NEXT, f64(0, 0, 1), f64(1, 1, 1), TO_GO, lam)


def failure(lam):
    return doubly_robust_step(VALUE, NEXT, f64(0, 0, 0), f64(0, 0, 0), TO_GO, lam)


def test_step_advantage_golden():
    # Success, lam 0.5: w = 0.25, 0.5, 1.
    # A = 0.25 + 0.75 (0.5 - 0.45) = 0.2875;  0.5 + 0.5 (0.8 - 0.5) = 0.65;  1 + 0 (...) = 1.
    assert success(0.5).tolist() == pytest.approx([0.2875, 0.65, 1.0])
    # Failure: w = 0, so A = 0.05, 0.3, -0.8.
    assert failure(0.5).tolist() == pytest.approx([0.05, 0.3, -0.8])


def test_lambda_one_is_the_monte_carlo_part_and_lambda_zero_the_one_step_part():
    one_step = [0.05, 0.3]
    assert success(1.0).tolist() == [1.0, 1.0, 1.0]
    assert success(0.0).tolist() == pytest.approx([*one_step, 1.0])  # at a success's last step w = 0^0 = 1
    for lam in (0.0, 0.5, 1.0):
        assert failure(lam).tolist() == pytest.approx([*one_step, -0.8])


def test_step_filter_compares_with_one_over_the_step_limit():
    assert keep_steps(failure(0.5), step_limit=10).tolist() == [False, True, False]  # 0.05 is not > 0.1
    assert keep_steps(failure(0.5), step_limit=40).tolist() == [True, True, False]  # but > 0.025
    assert keep_steps(f64(0.25), step_limit=4).tolist() == [False]  # strictly above
    assert keep_steps(success(0.5), step_limit=10).tolist() == [True, True, True]


def test_instruction_advantage_golden():
    got = instruction_advantage(f64(1, 1, 0, 0), f64(0.25, 0.9, 0.25, 0.9))
    assert got.tolist() == pytest.approx([0.75, 0.1, -0.25, -0.9])


def test_trajectory_filter_keeps_the_share_that_was_asked_for():
    # Ten trajectories, five successes: 0.2 of them are two, the two of largest advantage.
    advantage = f64(-0.1, 0.5, 0.9, -0.4, 0.7, 0.6, -0.2, 0.8, -0.3, -0.5)
    won = advantage > 0
    kept = keep_trajectories(advantage, won, top_p=0.2)
    assert kept.nonzero().flatten().tolist() == [2, 7]
    assert torch.equal(keep_trajectories(advantage, won, top_p=1.0), won)
    assert keep_trajectories(advantage, won, top_p=0.01).nonzero().flatten().tolist() == [2]  # never nothing
    # Equally good ones stay together, whatever their order.
    assert keep_trajectories(f64(0.4, 0.4, 0.3, 0.4), torch.ones(4, dtype=torch.bool), 0.25).tolist() == [
        True, True, False, True,
    ]  # fmt: skip


def test_trajectory_filter_avoids_the_trap_of_rare_successes():
    # One success in twenty: the 0.9-quantile of the rewards is 0, and `reward >= quantile` would keep all twenty.
    reward = torch.zeros(20, dtype=torch.float64)
    reward[13] = 1.0
    assert (reward >= reward.quantile(0.9)).all()
    kept = keep_trajectories(reward, reward > 0.5, top_p=0.1)
    assert kept.nonzero().flatten().tolist() == [13]
    assert not keep_trajectories(torch.zeros(20), torch.zeros(20, dtype=torch.bool), top_p=0.1).any()


def test_soft_weights_golden():
    # exp(0.5 / 0.5) = e, exp(-1 / 0.5) = e^-2, exp(1 / 0.05) = e^20 is cut to 20.
    assert soft_weight(f64(0.5, -1.0), beta=0.5).tolist() == pytest.approx([math.e, math.exp(-2)])
    assert soft_weight(f64(1.0), beta=0.05).tolist() == pytest.approx([20.0])


SHARE = st.floats(0, 1)


@settings(max_examples=100)
@given(SHARE, SHARE, SHARE, st.integers(0, 20), st.booleans())
def test_step_advantage_lies_between_its_parts(value, next_value, lam, to_go, won):
    r_final = float(won)
    last = to_go == 0
    next_value = 0.0 if last else next_value
    r_step = r_final if last else 0.0
    args = (f64(value), f64(next_value), f64(r_step), f64(r_final), torch.tensor([to_go]))
    got = doubly_robust_step(*args, lam).item()
    parts = sorted([r_final, next_value + r_step - value])
    assert -1 <= got <= 1
    if won:
        assert parts[0] - 1e-12 <= got <= parts[1] + 1e-12
    else:
        assert got == next_value - value


@settings(max_examples=100)
@given(st.lists(st.tuples(st.floats(-1, 1), st.booleans()), min_size=1, max_size=30), st.floats(0.01, 1))
def test_trajectory_filter_invariants(batch, top_p):
    advantage, won = f64(*(a for a, _ in batch)), torch.tensor([s for _, s in batch])
    kept = keep_trajectories(advantage, won, top_p)
    assert not (kept & ~won).any()
    assert kept.sum() >= min(won.sum(), math.floor(top_p * len(batch)))
    assert kept.any() == won.any()
    if kept.any() and (won & ~kept).any():
        assert advantage[kept].min() > advantage[won & ~kept].max()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="lam must be in"):
        success(1.5)
    with pytest.raises(ValueError, match="value must lie in"):
        doubly_robust_step(VALUE * 3, NEXT, NEXT, NEXT, TO_GO, 0.5)
    with pytest.raises(ValueError, match="next_value has shape"):
        doubly_robust_step(VALUE, NEXT[:2], NEXT, NEXT, TO_GO, 0.5)
    with pytest.raises(ValueError, match="steps_to_go must not be negative"):
        doubly_robust_step(VALUE, NEXT, NEXT, NEXT, -TO_GO, 0.5)
    with pytest.raises(ValueError, match="instruction_value holds NaN"):
        instruction_advantage(f64(1), f64(math.nan))
    with pytest.raises(ValueError, match="top_p"):
        keep_trajectories(VALUE, VALUE > 0, 0.0)
    with pytest.raises(ValueError, match="step_limit"):
        keep_steps(VALUE, 0)
    with pytest.raises(ValueError, match="beta"):
        soft_weight(VALUE, 0.0)
