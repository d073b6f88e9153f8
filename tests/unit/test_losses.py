"""Losses and objectives against hand-computed numbers and against their equations, token by token."""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mobilerl.algorithms.losses import (
    aggregation_weights,
    aride_loss,
    clipped_policy_loss,
    imitation_loss,
    kl_k3,
    mismatch_mask,
)
from mobilerl.algorithms.objectives import PROB_DIFF, clipped, with_rollout_gap
from mobilerl.config import ClippedLossSection
from mobilerl.engines.scoring import add_metrics
from mobilerl.records import MicroBatch

torch.set_num_threads(1)

AGGREGATIONS = ["token-mean", "sample-mean", "trajectory-mean"]
MASK = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
TRAJECTORY = torch.tensor([8, 3, 8, 3])


def random_batch(seed, samples=6, length=5):
    g = torch.Generator().manual_seed(seed)
    old = -3 * torch.rand(samples, length, generator=g, dtype=torch.float64)
    return {
        "logp": old + 0.4 * torch.randn(samples, length, generator=g, dtype=torch.float64),
        "old_logp": old,
        "rollout_logp": old + 0.5 * torch.randn(samples, length, generator=g, dtype=torch.float64),
        "advantage": torch.randn(samples, generator=g, dtype=torch.float64),
        "mask": (torch.rand(samples, length, generator=g) < 0.7).index_fill(1, torch.tensor([0]), True),
        "trajectory": torch.randint(-1, 2, (samples,), generator=g),
    }


def numbers(metrics):
    return {name: value.item() for name, value in metrics.items()}


def loss_of(name, b, weights):
    """One of the three losses of `random_batch`'s columns."""
    if name == "clipped":
        return clipped_policy_loss(**{**b, "trajectory": None}, is_cap=1.3, weights=weights)
    if name == "aride":
        return aride_loss(b["logp"], b["rollout_logp"], b["advantage"], b["mask"], weights, entropy_coef=0.1)
    return imitation_loss(b["logp"], b["mask"], b["advantage"].abs(), weights)


LOSSES = pytest.mark.parametrize("name", ["clipped", "aride", "imitation"])


def test_aggregation_weights_golden():
    # 6 tokens in 3 samples that count (the last is empty); trajectory 8 has samples 0 and 2, trajectory 3 sample 1.
    token = aggregation_weights(MASK, "token-mean")
    assert token.tolist() == [pytest.approx([m / 6 for m in row]) for row in MASK.tolist()]
    sample = aggregation_weights(MASK, "sample-mean")  # 1/3 per sample, split over 3, 1 and 2 tokens
    assert sample[:, 0].tolist() == pytest.approx([1 / 9, 1 / 3, 1 / 6, 0])
    trajectory = aggregation_weights(MASK, "trajectory-mean", TRAJECTORY)  # 1/2 each; samples 0 and 2 share one half
    assert trajectory[:, 0].tolist() == pytest.approx([1 / 12, 1 / 2, 1 / 8, 0])
    assert trajectory.sum().item() == pytest.approx(1)


def test_clipped_loss_golden():
    # A=+2, clip 0.8..1.2: ratios 1.5 -> 1.2*2 = 2.4 (clipped), 0.5 -> 0.5*2 = 1.
    # A=-1:                ratios 1.5 -> -1.5,                  0.5 -> -0.8 (clipped). Mean = (2.4+1-1.5-0.8)/4 = 0.275
    old = torch.full((2, 2), -1.0, dtype=torch.float64)
    logp = (old + torch.tensor([[1.5, 0.5]]).log()).requires_grad_()
    loss, metrics = clipped_policy_loss(logp, old, torch.tensor([2.0, -1.0]), torch.ones(2, 2))
    assert loss.item() == pytest.approx(-0.275)
    assert numbers(metrics) == pytest.approx(
        {
            "clip_frac": 0.5,
            "ratio_mean": 1.0,
            "ratio_max": 1.5,
            "approx_kl": (0.5 - math.log(1.5) - 0.5 - math.log(0.5)) / 2,  # ratio - 1 - log ratio
            "is_weight_mean": 1.0,
            "is_cap_frac": 0.0,
        }
    )
    loss.backward()  # -weight * ratio * A where not clipped, and 0 where clipped
    assert logp.grad.flatten().tolist() == pytest.approx([0.0, -0.25, 0.375, 0.0])


def test_a_negative_advantage_counts_up_to_the_dual_clip():
    """A = -1 at ratios 5 and 2: min(rho A, clip A) = -5 and -2, of which the first is bounded by 3 A."""
    old = torch.full((1, 2), -3.0, dtype=torch.float64)
    logp = (old + torch.tensor([[5.0, 2.0]]).log()).requires_grad_()
    arguments = logp, old, torch.tensor([-1.0]), torch.ones(1, 2)
    loss, metrics = clipped_policy_loss(*arguments, dual_clip=3.0)
    assert loss.item() == pytest.approx((3 + 2) / 2) and metrics["clip_frac"].item() == 0.5
    loss.backward()
    assert logp.grad.flatten().tolist() == pytest.approx([0.0, 1.0])
    assert clipped_policy_loss(*arguments)[0].item() == pytest.approx((5 + 2) / 2)


def test_replayed_rows_are_counted_apart():
    """A = 1 at a ratio of 2, fresh and replayed: both are clipped at 1.28."""
    old = torch.full((2, 1), -3.0)
    micro = MicroBatch(
        old + math.log(2), old, old, None, torch.ones(2), torch.zeros(2, dtype=torch.bool),
        torch.tensor([False, True]), torch.ones(2, 1), torch.tensor([[0.75], [0.25]]),
    )  # fmt: skip
    loss, metrics = clipped(ClippedLossSection())(micro)
    assert loss.item() == pytest.approx(-1.28)
    assert (metrics["clip_frac"], metrics["clip_frac_replayed"], metrics["replay_weight"]) == (1.0, 0.25, 0.25)


def micro_batch(b, agg="token-mean", ref_logp=None, off_policy=None) -> MicroBatch:
    weights = aggregation_weights(b["mask"], agg, b["trajectory"])
    logps = b["logp"], b["old_logp"], b["rollout_logp"], ref_logp
    replayed = torch.zeros(len(b["mask"]), dtype=torch.bool)
    return MicroBatch(*logps, b["advantage"], off_policy, replayed, b["mask"].double(), weights)


@pytest.mark.parametrize("agg", AGGREGATIONS)
@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), clip=st.tuples(st.floats(0.05, 0.5), st.floats(0.05, 0.5)), cap=st.floats(0.5, 3))
def test_the_clipped_objective_equals_its_equation(agg, seed, clip, cap):
    b = random_batch(seed)
    micro = micro_batch(b, agg, ref_logp=b["old_logp"])
    section = ClippedLossSection(clip_low=clip[0], clip_high=clip[1], tis_cap=cap, kl_coef=0.5)
    loss, metrics = clipped(section)(micro)
    expected = kl = 0.0
    for i, t in b["mask"].nonzero().tolist():
        logp, old, rollout = (b[name][i, t].item() for name in ("logp", "old_logp", "rollout_logp"))
        ratio, a, weight = math.exp(logp - old), b["advantage"][i].item(), micro.weights[i, t].item()
        clipped_ratio = min(max(ratio, 1 - clip[0]), 1 + clip[1])
        term = min(ratio * a, clipped_ratio * a)
        expected -= weight * min(math.exp(old - rollout), cap) * (max(term, 3 * a) if a < 0 else term)
        kl += weight * (1 / ratio + math.log(ratio) - 1)
    assert metrics["kl"].item() == pytest.approx(kl, abs=1e-9)
    assert loss.item() == pytest.approx(expected + 0.5 * kl, abs=1e-9)
    without, metrics = clipped(section.model_copy(update={"tis_cap": None}))(micro_batch(b, agg))
    assert metrics["is_weight_mean"].item() == pytest.approx(1) and "kl" not in metrics


def test_the_gap_to_the_rollout_counts_only_samples_of_the_current_weights():
    b, off_policy = random_batch(seed=2), torch.tensor([True, False, True, False, True, True])
    gap = (b["logp"].exp() - b["rollout_logp"].exp()).abs()[b["mask"] & ~off_policy.unsqueeze(1)]
    objective = with_rollout_gap(clipped(ClippedLossSection()))
    metrics = objective(micro_batch(b, off_policy=off_policy))[1]
    assert metrics[PROB_DIFF].item() == gap.max().item()
    fresh = b["mask"] & ~off_policy.unsqueeze(1)
    assert metrics["fresh_tokens"] == fresh.sum() and metrics["fresh_surprise"] == pytest.approx(
        -b["logp"][fresh].sum()
    )
    assert metrics["fresh_k3"] == pytest.approx(kl_k3(b["rollout_logp"], b["logp"])[fresh].sum())
    assert objective(micro_batch(b, off_policy=torch.ones(6, dtype=torch.bool)))[1][PROB_DIFF].item() == 0.0


def aride_golden(**settings_):
    """Samples of two tokens and one: pi = 0.5, 0.3 | 0.2 and mu = 0.25, 0.5 | 0.4; A = 2, -1. Padding is noise."""
    mask = torch.tensor([[1, 1], [1, 0]])
    logp = torch.tensor([[0.5, 0.3], [0.2, 0.9]], dtype=torch.float64).log().requires_grad_()
    rollout = torch.tensor([[0.25, 0.5], [0.4, 0.01]], dtype=torch.float64).log()
    advantage = torch.tensor([2.0, -1.0], dtype=torch.float64)
    loss, metrics = aride_loss(logp, rollout, advantage, mask, aggregation_weights(mask, "token-mean"), **settings_)
    loss.backward()
    return loss.item(), numbers(metrics), logp.grad


def test_aride_golden():
    # rho: 2 * 0.6 = 1.2, cut to 1, and 0.5. Each of 3 tokens weighs 1/3:
    # loss = -(1 * 2 * log 0.15 + 0.5 * (-1) * log 0.2) / 3 = (3.794240 - 0.804719) / 3 = 0.996507
    loss, metrics, gradient = aride_golden()
    assert loss == pytest.approx(0.996507, abs=1e-6)
    assert gradient.flatten().tolist() == pytest.approx([-2 / 3, -2 / 3, 0.5 / 3, 0.0])  # -weight * rho * A
    neg_logp = -(math.log(0.15) + math.log(0.2)) / 3
    assert metrics == pytest.approx(
        {"ratio_mean": (1 + 1 + 0.5) / 3, "ratio_cap_frac": 2 / 3, "ratio_max": 1.2, "neg_logp": neg_logp}
    )
    # The entropy bonus: 0.996507 - 0.05 * 1.168853 = 0.938065
    loss, _, gradient = aride_golden(entropy_coef=0.05)
    assert loss == pytest.approx(0.938065, abs=1e-6)
    assert gradient[0].tolist() == pytest.approx([(-2 + 0.05) / 3] * 2)


def test_imitation_golden():
    # sample-mean: 1/4, 1/4 | 1/2. Weights 1 and 1: 0.25 * (1 + 3) + 0.5 * 2 = 2.
    mask = torch.tensor([[1, 1], [1, 0]])
    weights = aggregation_weights(mask, "sample-mean")
    logp = torch.tensor([[-1.0, -3.0], [-2.0, -9.0]], dtype=torch.float64, requires_grad=True)
    loss, metrics = imitation_loss(logp, mask, torch.ones(2), weights)
    assert (loss.item(), *numbers(metrics).values()) == pytest.approx((2.0, 2.0, 1.0))
    # Weights 1 and 0.5: 0.25 * 4 + 0.5 * 0.5 * 2 = 1.5; the mean weight is 0.75.
    loss, metrics = imitation_loss(logp, mask, torch.tensor([1.0, 0.5]), weights)
    assert (loss.item(), *numbers(metrics).values()) == pytest.approx((1.5, 2.0, 0.75))
    loss.backward()
    assert logp.grad.tolist() == [[-0.25, -0.25], [-0.25, 0.0]]
    # Advantage-weighted regression, beta 1: weights 1 and 1/e. 0.25 * 4 + 0.5 * 2 / e.
    loss, _ = imitation_loss(logp, mask, torch.tensor([1.0, math.exp(-1)]), weights)
    assert loss.item() == pytest.approx(1 + math.exp(-1))


@LOSSES
@pytest.mark.parametrize("agg", AGGREGATIONS)
def test_micro_batches_add_up_exactly(name, agg):
    b = random_batch(seed=3)
    weights = aggregation_weights(b["mask"], agg, b["trajectory"])
    assert weights.sum().item() == pytest.approx(1, abs=1e-6) and torch.equal(weights > 0, b["mask"])
    whole_logp = b.pop("logp").requires_grad_()
    whole, whole_metrics = loss_of(name, {**b, "logp": whole_logp}, weights)
    whole.backward()
    logp = whole_logp.detach().clone().requires_grad_()
    total, added = 0.0, {}
    for chunk in torch.arange(6).split([2, 3, 1]):
        part = {key: column[chunk] for key, column in b.items()}
        loss, metrics = loss_of(name, {**part, "logp": logp[chunk]}, weights[chunk])
        loss.backward()
        total += loss.item()
        add_metrics(added, metrics)
    assert total == pytest.approx(whole.item(), rel=1e-12)
    torch.testing.assert_close(logp.grad, whole_logp.grad, rtol=1e-12, atol=0)
    assert added == pytest.approx(numbers(whole_metrics))


@LOSSES
def test_padding_may_hold_anything(name):
    b = random_batch(seed=9)
    weights = aggregation_weights(b["mask"], "token-mean")
    clean, clean_metrics = loss_of(name, b, weights)
    for column, garbage in (("logp", math.nan), ("old_logp", -math.inf), ("rollout_logp", math.nan)):
        b[column] = b[column].masked_fill(~b["mask"], garbage)
    b["logp"].requires_grad_()
    loss, metrics = loss_of(name, b, weights)
    assert (loss.item(), numbers(metrics)) == (clean.item(), numbers(clean_metrics))
    loss.backward()
    assert torch.isfinite(b["logp"].grad).all() and not b["logp"].grad[~b["mask"]].any()


def test_kl_k3_golden_and_unbiased():
    # ref/policy = 2: 2 - ln 2 - 1 = 0.306853; 0.5: 0.5 + ln 2 - 1 = 0.193147; equal: 0.
    ref = torch.tensor([[2.0, 0.5, 1.0]]).log() - 1
    assert kl_k3(torch.full((1, 3), -1.0), ref)[0].tolist() == pytest.approx([0.306853, 0.193147, 0.0], abs=1e-6)
    p, q = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]], dtype=torch.float64)
    torch.testing.assert_close((p * kl_k3(p.log(), q.log())).sum(), (p * (p / q).log()).sum())


# --- disagreement of sampler and learner ---------------------------------------------------------------------------

RATIOS = torch.tensor([[0.4, 1.0, 2.0, 9.0], [0.5, 5.0, 1.0, 1.0], [0.5, 0.5, 0.5, 1.0]], dtype=torch.float64)
PRESENT = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1]])
"""The ratio of 9 is padding. Products of the rows: 0.8, 2.5 and 0.125."""


def test_mismatch_masks_golden():
    rollout = torch.full((3, 4), -2.0, dtype=torch.float64)
    old = rollout + RATIOS.log()
    token = mismatch_mask(old, rollout, PRESENT, "token", (0.45, 5.1))
    assert token.tolist() == [[False, True, True, False], [True] * 4, [True] * 4]
    sequence = mismatch_mask(old, rollout, PRESENT, "sequence", (0.45, 2.6))
    assert sequence.tolist() == [[True, True, True, False], [True] * 4, [False] * 4]
    assert mismatch_mask(old, rollout, PRESENT, "sequence", (0.0, 1.0)).any(1).tolist() == [True, False, True]
    with pytest.raises(ValueError, match="limits must be around 1"):
        mismatch_mask(old, rollout, PRESENT, "token", (1.1, 2.0))


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_masked_tokens_have_no_gradient_and_the_others_have_theirs(level):
    micro, limits = micro_batch(random_batch(3)), (0.8, 1.3)
    micro.logp.requires_grad_()
    plain, _ = clipped(ClippedLossSection())(micro)
    (before,) = torch.autograd.grad(plain, micro.logp)
    loss, metrics = clipped(ClippedLossSection(mismatch_mask=level, mismatch_limits=limits))(micro)
    (after,) = torch.autograd.grad(loss, micro.logp)
    kept = mismatch_mask(micro.old_logp, micro.rollout_logp, micro.mask, level, limits)
    assert 0 < kept.sum() < micro.mask.sum()
    assert torch.equal(after, before * kept)
    assert metrics["mismatch_frac"].item() == pytest.approx((micro.weights * ~kept).sum().item())
    wide, _ = clipped(ClippedLossSection(mismatch_mask=level, mismatch_limits=(0.0, 1e9)))(micro)
    assert torch.equal(wide, plain)


def test_the_mask_of_the_ratio_to_the_rollout_is_two_sided_golden():
    """Four tokens of weight 1/4, of a ratio of 0.5, 0.9, 1.1 and 2 to the rollout, with the limits 0.8 and 1.2.

    The loss of the two in the middle is -(0.9 + 1.1) A / 4. Clipping alone would keep the first as well with A > 0, and
    the last with A < 0.
    """
    rollout = torch.full((1, 4), -2.0, dtype=torch.float64)
    logp = (rollout + torch.tensor([[0.5, 0.9, 1.1, 2.0]], dtype=torch.float64).log()).requires_grad_()
    ones = torch.ones(1, 4, dtype=torch.float64)
    for advantage in (2.0, -2.0):
        a = torch.tensor([advantage], dtype=torch.float64)
        micro = SimpleNamespace(
            **{"logp": logp, "old_logp": rollout, "rollout_logp": rollout, "ref_logp": None, "replayed": None},
            **{"advantage": a, "mask": ones, "weights": ones / 4},
        )
        loss, metrics = clipped(ClippedLossSection(ratio_mask=(0.8, 1.2)))(micro)
        (gradient,) = torch.autograd.grad(loss, logp)
        assert loss.item() == pytest.approx(-advantage / 2) and metrics["ratio_mask_frac"].item() == 0.5
        assert gradient[0].tolist() == pytest.approx([0.0, -0.225 * advantage, -0.275 * advantage, 0.0])
        (unmasked,) = torch.autograd.grad(clipped(ClippedLossSection())(micro)[0], logp)
        assert (unmasked[0] != 0).tolist() == (
            [True, True, True, False] if advantage > 0 else [False, True, True, True]
        )
