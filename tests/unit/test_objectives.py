"""Objectives on hand-worked tensors: two rows of at most two tokens, as an engine pads them (to the right edge)."""

import math

import pytest
import torch

from mobilerl.config import LossSection
from mobilerl.engines.base import MicroBatch
from mobilerl.train.objectives import PROB_DIFF, clipped, make_objective, with_prob_diff


def micro(logp, old=None, rollout=None, ref=None, advantage=(1.0, -1.0), older=(False, False)) -> MicroBatch:
    mask = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    logp = torch.tensor(logp) * mask
    old = logp.detach() if old is None else torch.tensor(old) * mask
    rollout = old if rollout is None else torch.tensor(rollout) * mask
    ref = None if ref is None else torch.tensor(ref) * mask
    weights = mask / mask.sum()
    return MicroBatch(logp.requires_grad_(), old, rollout, ref, torch.tensor(advantage), torch.tensor(older), mask,
                      weights)  # fmt: skip


def test_on_policy_the_loss_is_the_mean_advantage_and_pushes_by_its_sign():
    # ratio 1 everywhere: -(1 + 1 - 1) / 3.
    batch = micro([[-1.0, -2.0], [0.0, -0.5]])
    loss, metrics = clipped(LossSection())(batch)
    assert loss.item() == pytest.approx(-1 / 3)
    loss.backward()
    assert batch.logp.grad.tolist() == [pytest.approx([-1 / 3, -1 / 3]), pytest.approx([0.0, 1 / 3])]
    assert "kl" not in metrics and metrics["clip_frac"].item() == 0


def test_clip_higher_stops_a_token_that_has_grown_enough():
    # ratios e^0.5 = 1.65 (A > 0: clipped at 1.28), 1, and e^-0.5 = 0.61 (A < 0: clipped at 0.8).
    batch = micro([[-0.5, -2.0], [0.0, -1.0]], old=[[-1.0, -2.0], [0.0, -0.5]])
    loss, metrics = clipped(LossSection())(batch)
    assert loss.item() == pytest.approx(-(1.28 + 1.0 - 0.8) / 3)
    loss.backward()
    assert batch.logp.grad.tolist() == [pytest.approx([0.0, -1 / 3]), pytest.approx([0.0, 0.0])]
    assert metrics["clip_frac"].item() == pytest.approx(2 / 3)


def test_the_importance_weight_is_capped_or_left_out():
    # The trainer's old log-probability is 1 above the rollout's in one token: weight e = 2.72, capped at 2.
    numbers = dict(logp=[[-1.0, -2.0], [0.0, -0.5]], rollout=[[-2.0, -2.0], [0.0, -0.5]])
    capped, _ = clipped(LossSection(is_cap=2.0))(micro(**numbers))
    without, _ = clipped(LossSection(is_cap=None))(micro(**numbers))
    assert capped.item() == pytest.approx(-(2.0 + 1 - 1) / 3)
    assert without.item() == pytest.approx(-(1.0 + 1 - 1) / 3)


def test_the_kl_term_is_k3_weighted_like_the_loss():
    # k3 = e^(ref - logp) - (ref - logp) - 1: with ref - logp = 1, 0, -1 it is e - 2, 0, 1 / e.
    kl = (math.e - 2 + 0 + 1 / math.e) / 3
    batch = micro([[-2.0, -2.0], [0.0, -0.5]], ref=[[-1.0, -2.0], [0.0, -1.5]])
    loss, metrics = clipped(LossSection(kl_coef=0.5))(batch)
    assert metrics["kl"].item() == pytest.approx(kl)
    assert loss.item() == pytest.approx(-1 / 3 + 0.5 * kl)


def test_the_gap_to_the_rollout_counts_only_what_these_weights_drew():
    numbers = dict(logp=[[-1.0, -2.0], [0.0, -0.5]], rollout=[[-1.0, -2.1], [0.0, -3.0]])
    objective = with_prob_diff(clipped(LossSection()))
    gaps = [math.exp(-2.0) - math.exp(-2.1), math.exp(-0.5) - math.exp(-3.0)]
    for older, wanted in (((False, False), gaps[1]), ((False, True), gaps[0]), ((True, True), 0.0)):
        _, metrics = objective(micro(**numbers, older=older))
        assert metrics[PROB_DIFF].item() == pytest.approx(wanted, abs=1e-7)


def test_aride_weighs_an_action_by_its_whole_ratio():
    # Row 1: log ratio 0.5 + 0.5 - 1.2 = -0.2 of two tokens; row 2: 0.3, capped at 1. Advantages 2 and -1, weights 1/3.
    batch = micro([[-1.0, -2.0], [0.0, -0.5]], rollout=[[-1.5, -1.3], [0.0, -0.8]], advantage=(2.0, -1.0))
    loss, metrics = make_objective(LossSection(type="aride", entropy_coef=0.3))(batch)
    rho = math.exp(-0.2)
    assert loss.item() == pytest.approx((2 * rho * 3.0 - 0.5 - 0.3 * (3.0 + 0.5)) / 3)
    assert metrics["ratio_max"].item() == pytest.approx(math.exp(0.3))
    loss.backward()
    bonus = 0.3
    assert batch.logp.grad[0].tolist() == pytest.approx([(-2 * rho + bonus) / 3] * 2)
    assert batch.logp.grad[1, 1].item() == pytest.approx((1 + bonus) / 3)
