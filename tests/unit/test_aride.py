"""Losses on data of earlier policies: A-RIDE and imitation."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mobilerl.algorithms.advantages import soft_weight
from mobilerl.algorithms.losses import (
    aggregation_weights,
    aride_loss,
    clipped_policy_loss,
    imitation_loss,
)
from mobilerl.engines.scoring import add_metrics

torch.set_num_threads(1)

MASK = torch.tensor([[1, 1], [1, 0]])
ADVANTAGE = torch.tensor([2.0, -1.0], dtype=torch.float64)
WEIGHTS = aggregation_weights(MASK, "token-mean")


def logs(rows):
    return torch.tensor(rows, dtype=torch.float64).log()


def golden(**settings_):
    """Two rows of two tokens and one: pi = 0.5, 0.3 | 0.2 and mu = 0.25, 0.5 | 0.4. What is in the padding is noise."""
    logp = logs([[0.5, 0.3], [0.2, 0.9]]).requires_grad_()
    loss, metrics = aride_loss(logp, logs([[0.25, 0.5], [0.4, 0.01]]), ADVANTAGE, MASK, WEIGHTS, **settings_)
    loss.backward()
    return loss.item(), metrics, logp.grad


LOG_A, LOG_B = math.log(0.15), math.log(0.2)
"""-1.897120 and -1.609438: the log-probabilities of the two actions."""


def test_aride_golden():
    # rho: 2 * 0.6 = 1.2, cut to 1, and 0.5. Each of 3 tokens weighs 1/3:
    # loss = -(1 * 2 * log 0.15 + 0.5 * (-1) * log 0.2) / 3 = (3.794240 - 0.804719) / 3 = 0.996507
    loss, metrics, gradient = golden()
    assert loss == pytest.approx(0.996507, abs=1e-6)
    # Its gradient is -weight * rho * A: rho itself has none.
    assert gradient.flatten().tolist() == pytest.approx([-2 / 3, -2 / 3, 0.5 / 3, 0.0])
    assert {name: value.item() for name, value in metrics.items()} == pytest.approx(
        {
            "ratio_mean": (1 + 1 + 0.5) / 3, "ratio_cap_frac": 2 / 3, "ratio_max": 1.2,
            "entropy": -(LOG_A + LOG_B) / 3,
        }
    )  # fmt: skip


def test_aride_without_a_cap():
    # rho = 1.2: (1.2 * 3.794240 - 0.804719) / 3 = 1.249456
    loss, metrics, _ = golden(ratio_cap=None)
    assert loss == pytest.approx(1.249456, abs=1e-6)
    assert metrics["ratio_cap_frac"].item() == 0.0


def test_entropy_bonus_lowers_the_loss_of_unlikely_actions():
    # Mean of -log pi: (1.897120 + 1.609438) / 3 = 1.168853; 0.996507 - 0.05 * 1.168853 = 0.938065
    loss, _, gradient = golden(entropy_coef=0.05)
    assert loss == pytest.approx(0.938065, abs=1e-6)
    assert gradient[0].tolist() == pytest.approx([(-2 + 0.05) / 3] * 2)


def random_batch(seed, n_rows=6, length=5):
    g = torch.Generator().manual_seed(seed)
    logp = -3 * torch.rand(n_rows, length, generator=g, dtype=torch.float64)
    return {
        "logp": logp,
        "rollout_logp": logp + 0.3 * torch.randn(n_rows, length, generator=g, dtype=torch.float64),
        "advantage": torch.randn(n_rows, generator=g, dtype=torch.float64),
        "mask": (torch.rand(n_rows, length, generator=g) < 0.7).index_fill(1, torch.tensor([0]), True),
    }


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), cap=st.floats(0.3, 3), beta=st.floats(0, 1))
def test_aride_equals_a_scalar_loop(seed, cap, beta):
    b = random_batch(seed)
    loss, _ = aride_loss(**b, weights=aggregation_weights(b["mask"], "row-mean"), ratio_cap=cap, entropy_coef=beta)
    total = 0.0
    for i in range(6):
        tokens = [t for t in range(5) if b["mask"][i, t]]
        log_pi = sum(b["logp"][i, t].item() for t in tokens)
        rho = min(math.exp(log_pi - sum(b["rollout_logp"][i, t].item() for t in tokens)), cap)
        row = rho * b["advantage"][i].item() * log_pi - beta * log_pi
        total -= row / len(tokens) / 6
    assert loss.item() == pytest.approx(total, abs=1e-6)


def test_on_policy_its_gradient_is_that_of_the_clipped_loss():
    b = random_batch(3)
    gradients = []
    for loss_of in (aride_loss, clipped_policy_loss):
        logp = b["logp"].clone().requires_grad_()
        weights = aggregation_weights(b["mask"], "token-mean")
        loss_of(logp, b["logp"], b["advantage"], b["mask"], weights=weights)[0].backward()
        gradients.append(logp.grad)
    torch.testing.assert_close(*gradients)


TRAJECTORY = torch.tensor([4, 4, 1, 4, 1, 0])


@pytest.mark.parametrize("name", ["aride", "imitation"])
@pytest.mark.parametrize("sizes", [[6], [1, 5], [2, 3, 1]])
def test_micro_batches_add_up_exactly(name, sizes):
    def loss_of(part, logp, weights):
        if name == "imitation":
            return imitation_loss(logp, part["mask"], part["advantage"].abs(), weights)
        return aride_loss(**{**part, "logp": logp}, weights=weights, entropy_coef=0.1)

    b = random_batch(7)
    whole_logp = b["logp"].clone().requires_grad_()
    weights = aggregation_weights(b["mask"], "trajectory-mean", TRAJECTORY)
    whole, whole_metrics = loss_of(b, whole_logp, weights)
    whole.backward()
    logp = b["logp"].clone().requires_grad_()
    added, total = {}, 0.0
    for rows in torch.arange(6).split(sizes):
        loss, metrics = loss_of({k: v[rows] for k, v in b.items()}, logp[rows], weights[rows])
        loss.backward()
        total += loss.item()
        add_metrics(added, metrics)
    assert total == pytest.approx(whole.item(), rel=1e-12)
    torch.testing.assert_close(logp.grad, whole_logp.grad, rtol=1e-12, atol=0)
    assert added == pytest.approx({k: v.item() for k, v in whole_metrics.items()})


def test_padding_may_hold_anything():
    b = random_batch(9)
    weights, row_weight = aggregation_weights(b["mask"], "token-mean"), torch.ones(6)
    clean, _ = aride_loss(**b, weights=weights, entropy_coef=0.1)
    clean_imitation, _ = imitation_loss(b["logp"], b["mask"], row_weight, weights)
    b["logp"] = b["logp"].masked_fill(~b["mask"], math.nan).requires_grad_()
    b["rollout_logp"] = b["rollout_logp"].masked_fill(~b["mask"], -math.inf)
    loss, metrics = aride_loss(**b, weights=weights, entropy_coef=0.1)
    imitation, _ = imitation_loss(b["logp"], b["mask"], row_weight, weights)
    (loss + imitation).backward()
    assert (loss.item(), imitation.item()) == (clean.item(), clean_imitation.item())
    assert torch.isfinite(b["logp"].grad).all()
    assert all(math.isfinite(value) for value in map(float, metrics.values()))


# --- imitation -----------------------------------------------------------------------------------------------------


def test_imitation_golden():
    by_row = aggregation_weights(MASK, "row-mean")
    # row-mean: 1/4, 1/4 | 1/2. Filtered: 0.25 * (1 + 3) + 0.5 * 2 = 2.
    logp = torch.tensor([[-1.0, -3.0], [-2.0, -9.0]], dtype=torch.float64, requires_grad=True)
    loss, metrics = imitation_loss(logp, MASK, torch.ones(2), by_row)
    assert (loss.item(), metrics["nll"].item(), metrics["row_weight_mean"].item()) == pytest.approx((2.0, 2.0, 1.0))
    # Weights 1 and 0.5: 0.25 * 4 + 0.5 * 0.5 * 2 = 1.5; the mean weight is 0.75.
    loss, metrics = imitation_loss(logp, MASK, torch.tensor([1.0, 0.5]), by_row)
    assert (loss.item(), metrics["nll"].item(), metrics["row_weight_mean"].item()) == pytest.approx((1.5, 2.0, 0.75))
    loss.backward()
    assert logp.grad.tolist() == [[-0.25, -0.25], [-0.25, 0.0]]


def test_advantage_weighted_regression_golden():
    # beta 1: weights e^0 = 1 and e^-1. 0.25 * 4 + 0.5 * 2 / e = 1.367879
    logp = torch.tensor([[-1.0, -3.0], [-2.0, -9.0]])
    weights = aggregation_weights(MASK, "row-mean")
    loss, _ = imitation_loss(logp, MASK, soft_weight(torch.tensor([0.0, -1.0]), beta=1.0), weights)
    assert loss.item() == pytest.approx(1 + math.exp(-1))


def test_bad_input_names_the_argument():
    b = random_batch(1)
    weights = aggregation_weights(b["mask"], "token-mean")
    for settings_, message in [
        ({"ratio_cap": 0.0}, "ratio_cap"),
        ({"entropy_coef": -1.0}, "entropy_coef"),
        ({"advantage": torch.zeros(2)}, "advantage must be"),
        ({"rollout_logp": torch.zeros(6, 2)}, "rollout_logp has shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            aride_loss(**{**b, "weights": weights, **settings_})
    with pytest.raises(ValueError, match="row_weight must not be negative"):
        imitation_loss(b["logp"], b["mask"], -torch.ones(6), weights)
    with pytest.raises(ValueError, match="row_weight must be"):
        imitation_loss(b["logp"], b["mask"], torch.ones(5), weights)
