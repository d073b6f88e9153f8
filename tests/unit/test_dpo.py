import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mobilerl.algorithms.losses import action_logp, dpo_loss

torch.set_num_threads(1)


def f64(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def test_dpo_golden():
    # Pair 1: chosen -2 against -3: +1; rejected -4 against -2: -2; margin 0.1 * 3 = 0.3;
    #         loss = log(1 + e^-0.3) = log 1.740818 = 0.554355.
    # Pair 2: nothing has changed: margin 0, loss log 2 = 0.693147. Mean 0.623751.
    chosen, rejected = f64(-2.0, -1.0).requires_grad_(), f64(-4.0, -5.0).requires_grad_()
    ref_chosen, ref_rejected = f64(-3.0, -1.0).requires_grad_(), f64(-2.0, -5.0)
    loss, metrics = dpo_loss(chosen, rejected, ref_chosen, ref_rejected, beta=0.1)
    assert loss.item() == pytest.approx(0.623751, abs=1e-6)
    assert {name: value.item() for name, value in metrics.items()} == pytest.approx(
        {"accuracy": 0.5, "margin": 0.15, "chosen_reward": 0.05, "rejected_reward": -0.1}
    )
    # d loss / d chosen = -beta (1 - sigmoid(margin)) / 2: -0.1 * 0.425557 / 2 and -0.1 * 0.5 / 2.
    loss.backward()
    assert chosen.grad.tolist() == pytest.approx([-0.0212779, -0.025], abs=1e-7)
    assert rejected.grad.tolist() == pytest.approx([0.0212779, 0.025], abs=1e-7)
    assert ref_chosen.grad is None


def test_action_logp_sums_the_tokens_of_the_mask():
    logp = torch.tensor([[-1.0, -2.0, math.nan], [-4.0, -math.inf, math.nan]])
    assert action_logp(logp, torch.tensor([[1, 1, 0], [1, 0, 0]])).tolist() == [-3.0, -4.0]


LOGS = st.lists(st.tuples(*[st.floats(-500, 0)] * 4), min_size=1, max_size=8)


@settings(max_examples=60)
@given(LOGS, st.floats(0.01, 1))
def test_invariants(pairs, beta):
    columns = [f64(*column) for column in zip(*pairs, strict=True)]
    loss, metrics = dpo_loss(*columns, beta)
    assert math.isfinite(loss.item())
    assert loss.item() >= 0
    # Exchanging the better and the worse action turns the margin round.
    back, turned = dpo_loss(columns[1], columns[0], columns[3], columns[2], beta)
    assert turned["margin"].item() == pytest.approx(-metrics["margin"].item())
    # -log sigmoid(m) + log sigmoid(-m) = -m
    assert (loss - back).item() == pytest.approx(-metrics["margin"].item(), abs=1e-9)
    # A policy that is the reference has learned nothing: log 2.
    start, _ = dpo_loss(columns[0], columns[1], columns[0], columns[1], beta)
    assert start.item() == pytest.approx(math.log(2))
