import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mobilerl.algorithms.losses import aggregation_weights, clipped_policy_loss, kl_k3
from mobilerl.engines.scoring import add_metrics

torch.set_num_threads(1)

AGGREGATIONS = ["token-mean", "row-mean", "trajectory-mean"]
MASK = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
TRAJECTORY = torch.tensor([8, 3, 8, 3])


def rows(*ratios, old=-1.0):
    """(logp, old_logp, mask) of rows whose probability ratios are given, in float64."""
    old_logp = torch.full((len(ratios), len(ratios[0])), old, dtype=torch.float64)
    logp = (old_logp + torch.tensor(ratios, dtype=torch.float64).log()).requires_grad_()
    return logp, old_logp, torch.ones_like(old_logp)


def random_batch(seed, n_rows=6, length=5):
    g = torch.Generator().manual_seed(seed)
    old = -3 * torch.rand(n_rows, length, generator=g, dtype=torch.float64)
    return {
        "logp": old + 0.4 * torch.randn(n_rows, length, generator=g, dtype=torch.float64),
        "old_logp": old,
        "rollout_logp": old + 0.5 * torch.randn(n_rows, length, generator=g, dtype=torch.float64),
        "advantage": torch.randn(n_rows, generator=g, dtype=torch.float64),
        "mask": (torch.rand(n_rows, length, generator=g) < 0.7).index_fill(1, torch.tensor([0]), True),
        "trajectory": torch.randint(-1, 2, (n_rows,), generator=g),
    }


def numbers(metrics):
    return {name: value.item() for name, value in metrics.items()}


# --- aggregation ---------------------------------------------------------------------------------------------------


def test_aggregation_weights_golden():
    # 6 tokens in 3 rows that count (the last is empty); trajectories: 8 has rows 0 and 2, 3 has row 1.
    token = aggregation_weights(MASK, "token-mean")
    assert token.tolist() == [pytest.approx([m / 6 for m in row]) for row in MASK.tolist()]
    row = aggregation_weights(MASK, "row-mean")  # 1/3 per row, split over 3, 1 and 2 tokens
    assert row.sum(1).tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert row[:, 0].tolist() == pytest.approx([1 / 9, 1 / 3, 1 / 6, 0])
    trajectory = aggregation_weights(MASK, "trajectory-mean", TRAJECTORY)  # 1/2 each; rows 0 and 2 share one half
    assert trajectory.sum(1).tolist() == pytest.approx([1 / 4, 1 / 2, 1 / 4, 0])
    assert trajectory[:, 0].tolist() == pytest.approx([1 / 12, 1 / 2, 1 / 8, 0])


@pytest.mark.parametrize("agg", AGGREGATIONS)
@settings(max_examples=50)
@given(seed=st.integers(0, 10_000))
def test_aggregation_weights_sum_to_one_on_the_mask(agg, seed):
    batch = random_batch(seed)
    weights = aggregation_weights(batch["mask"], agg, batch["trajectory"])
    assert weights.sum().item() == pytest.approx(1, abs=1e-6)
    assert torch.equal(weights > 0, batch["mask"])


def test_aggregation_weights_bad_input():
    with pytest.raises(ValueError, match="all zero"):
        aggregation_weights(torch.zeros(2, 3), "token-mean")
    with pytest.raises(ValueError, match="needs trajectory"):
        aggregation_weights(MASK, "trajectory-mean")
    with pytest.raises(ValueError, match="unknown agg 'seq-mean'"):
        aggregation_weights(MASK, "seq-mean")


# --- clipped loss --------------------------------------------------------------------------------------------------


def test_clipped_loss_golden():
    # A=+2, clip 0.8..1.2: ratios 1.5 -> 1.2*2 = 2.4 (clipped), 0.5 -> 0.5*2 = 1.
    # A=-1:                ratios 1.5 -> -1.5,                  0.5 -> -0.8 (clipped). Mean = (2.4+1-1.5-0.8)/4 = 0.275
    logp, old, mask = rows([1.5, 0.5], [1.5, 0.5])
    loss, metrics = clipped_policy_loss(logp, old, torch.tensor([2.0, -1.0]), mask)
    assert loss.item() == pytest.approx(-0.275)
    assert metrics["clip_frac"].item() == pytest.approx(0.5)
    assert metrics["ratio_mean"].item() == pytest.approx(1.0)
    assert metrics["ratio_max"].item() == pytest.approx(1.5)
    # k3 of KL(old || new): ratio - 1 - log ratio, over 1.5 and 0.5.
    assert metrics["approx_kl"].item() == pytest.approx((0.5 - math.log(1.5) - 0.5 - math.log(0.5)) / 2)
    assert metrics["is_weight_mean"].item() == pytest.approx(1.0)
    assert metrics["is_cap_frac"].item() == 0.0
    assert not any(value.requires_grad for value in metrics.values())
    # The gradient is -weight * ratio * A where not clipped, and 0 where clipped.
    loss.backward()
    assert logp.grad.flatten().tolist() == pytest.approx([0.0, -0.25, 0.375, 0.0])


def test_clip_higher_lets_good_tokens_rise_further():
    logp, old, mask = rows([1.25])
    advantage = torch.ones(1)
    assert clipped_policy_loss(logp, old, advantage, mask)[0].item() == pytest.approx(-1.2)
    assert clipped_policy_loss(logp, old, advantage, mask, clip_high=0.28)[0].item() == pytest.approx(-1.25)


def test_truncated_importance_weight_golden():
    # exp(old - rollout) = 0.5 and 4 capped to 2; ratios are 1, A = 1: loss = -(0.5 + 2)/2.
    logp, old, mask = rows([1.0, 1.0])
    rollout = (old - torch.tensor([[0.5, 4.0]], dtype=torch.float64).log()).requires_grad_()
    loss, metrics = clipped_policy_loss(logp, old, torch.ones(1), mask, rollout_logp=rollout, is_cap=2.0)
    assert loss.item() == pytest.approx(-1.25)
    assert metrics["is_weight_mean"].item() == pytest.approx(1.25)
    assert metrics["is_cap_frac"].item() == pytest.approx(0.5)
    loss.backward()
    assert rollout.grad is None
    unweighted, _ = clipped_policy_loss(logp, old, torch.ones(1), mask, rollout_logp=rollout)
    assert unweighted.item() == pytest.approx(-1.0)


def scalar_loss(b, weights, clip_low, clip_high, is_cap):
    """The equation, token by token."""
    total = 0.0
    for i in range(len(b["logp"])):
        for t in range(len(b["logp"][i])):
            if not b["mask"][i, t]:
                continue
            ratio = math.exp(b["logp"][i, t].item() - b["old_logp"][i, t].item())
            clipped = min(max(ratio, 1 - clip_low), 1 + clip_high)
            a = b["advantage"][i].item()
            w = min(math.exp(b["old_logp"][i, t].item() - b["rollout_logp"][i, t].item()), is_cap)
            total -= weights[i, t].item() * w * min(ratio * a, clipped * a)
    return total


@pytest.mark.parametrize("agg", AGGREGATIONS)
@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), clip=st.tuples(st.floats(0.05, 0.5), st.floats(0.05, 0.5)), cap=st.floats(0.5, 3))
def test_equals_a_scalar_loop(agg, seed, clip, cap):
    b = random_batch(seed)
    loss, _ = clipped_policy_loss(**b, clip_low=clip[0], clip_high=clip[1], is_cap=cap, agg=agg)
    weights = aggregation_weights(b["mask"], agg, b["trajectory"])
    assert loss.item() == pytest.approx(scalar_loss(b, weights, *clip, cap), abs=1e-9)


@pytest.mark.parametrize("agg", AGGREGATIONS)
@pytest.mark.parametrize("sizes", [[6], [1, 5], [2, 3, 1], [1] * 6])
def test_micro_batches_add_up_exactly(agg, sizes):
    b = random_batch(seed=3)
    whole_logp = b.pop("logp").requires_grad_()
    whole, whole_metrics = clipped_policy_loss(whole_logp, **b, is_cap=1.3, agg=agg)
    whole.backward()

    weights = aggregation_weights(b["mask"], agg, b["trajectory"])
    logp = whole_logp.detach().clone().requires_grad_()
    total, added = 0.0, {}
    for chunk in torch.arange(6).split(sizes):
        part = {name: column[chunk] for name, column in b.items()}
        loss, metrics = clipped_policy_loss(logp[chunk], **part, is_cap=1.3, weights=weights[chunk])
        loss.backward()
        total += loss.item()
        add_metrics(added, metrics)
    assert total == pytest.approx(whole.item(), rel=1e-12)
    torch.testing.assert_close(logp.grad, whole_logp.grad, rtol=1e-12, atol=0)
    assert added == pytest.approx(numbers(whole_metrics))


def test_a_replayed_row_beyond_the_clip_has_no_gradient():
    # The policy has already moved further towards the replayed success (A > 0) than the clip allows: no more pull.
    # A replayed row that the policy moved away from still pulls back.
    logp, behaviour, mask = rows([1.3, 2.0, 9.0], [0.3, 0.5, 0.7])
    loss, metrics = clipped_policy_loss(
        logp, behaviour, torch.tensor([1.5, 1.5]), mask, rollout_logp=behaviour, is_cap=2.0
    )
    loss.backward()
    assert logp.grad[0].tolist() == [0.0, 0.0, 0.0]
    assert (logp.grad[1] < 0).all()
    assert metrics["clip_frac"].item() == pytest.approx(0.5)
    assert metrics["is_weight_mean"].item() == pytest.approx(1.0)


def test_gradient_on_policy_is_that_of_the_policy_gradient():
    # At ratio 1 the gradient of the loss is -weight * A for each token; old_logp may be the very same tensor.
    b = random_batch(seed=5)
    logp = b["logp"].requires_grad_()
    loss, _ = clipped_policy_loss(logp, logp, b["advantage"], b["mask"])
    loss.backward()
    torch.testing.assert_close(logp.grad, -aggregation_weights(b["mask"], "token-mean") * b["advantage"][:, None])


def test_padding_may_hold_anything():
    b = random_batch(seed=9)
    clean, clean_metrics = clipped_policy_loss(**b, is_cap=2.0)
    for name, garbage in (("logp", math.nan), ("old_logp", -math.inf), ("rollout_logp", math.nan)):
        b[name] = b[name].masked_fill(~b["mask"], garbage)
    b["logp"].requires_grad_()
    loss, metrics = clipped_policy_loss(**b, is_cap=2.0)
    assert (loss.item(), numbers(metrics)) == (clean.item(), numbers(clean_metrics))
    loss.backward()
    assert torch.isfinite(b["logp"].grad).all()
    assert not b["logp"].grad[~b["mask"]].any()


def test_per_token_advantages_and_low_precision():
    logp, old, mask = rows([1.1, 0.9])
    loss, _ = clipped_policy_loss(logp, old, torch.tensor([[1.0, -2.0]]), mask)
    assert loss.item() == pytest.approx(-(1.1 - 1.8) / 2)
    half, _ = clipped_policy_loss(logp.bfloat16(), old.bfloat16(), torch.ones(1).bfloat16(), mask.bool())
    assert half.dtype == torch.float32


def test_an_absurd_log_ratio_stays_finite():
    logp = torch.tensor([[0.0, -300.0]], requires_grad=True)
    old = torch.tensor([[-300.0, 0.0]])
    loss, metrics = clipped_policy_loss(logp, old, torch.zeros(1), torch.ones(1, 2), rollout_logp=logp, is_cap=2.0)
    loss.backward()
    assert loss.item() == 0.0
    assert all(math.isfinite(value) for value in numbers(metrics).values())
    assert torch.isfinite(logp.grad).all()


def test_an_empty_micro_batch_costs_nothing():
    logp, old, mask = rows([1.5, 0.5])
    loss, metrics = clipped_policy_loss(logp, old, torch.ones(1), mask * 0, weights=torch.zeros(1, 2))
    loss.backward()
    assert loss.item() == 0.0
    assert set(numbers(metrics).values()) == {0.0}


def test_bad_input_names_the_argument():
    logp, old, mask = rows([1.0, 1.0])
    one = torch.ones(1)
    with pytest.raises(ValueError, match="is_cap"):
        clipped_policy_loss(logp, old, one, mask, is_cap=2.0)
    with pytest.raises(ValueError, match="clip_low"):
        clipped_policy_loss(logp, old, one, mask, clip_low=1.2)
    with pytest.raises(ValueError, match="old_logp has shape"):
        clipped_policy_loss(logp, old[:, :1], one, mask)
    with pytest.raises(ValueError, match="advantage must be"):
        clipped_policy_loss(logp, old, torch.ones(3), mask)


# --- KL ------------------------------------------------------------------------------------------------------------


def test_kl_k3_golden():
    # ref/policy = 2: 2 - ln 2 - 1 = 0.306853; 0.5: 0.5 + ln 2 - 1 = 0.193147; equal: 0.
    ref = torch.tensor([[2.0, 0.5, 1.0]]).log() - 1
    assert kl_k3(torch.full((1, 3), -1.0), ref)[0].tolist() == pytest.approx([0.306853, 0.193147, 0.0], abs=1e-6)


def test_kl_k3_is_unbiased_over_the_policy():
    # Expectation under p, written out over the whole vocabulary, is the exact KL(p || q).
    p = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    q = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)
    exact = (p * (p / q).log()).sum()
    torch.testing.assert_close((p * kl_k3(p.log(), q.log())).sum(), exact)


@given(st.floats(-50, 0), st.floats(-50, 0))
def test_kl_k3_is_never_negative(logp, ref_logp):
    assert kl_k3(torch.tensor(logp).double(), torch.tensor(ref_logp).double()).item() >= -1e-12
