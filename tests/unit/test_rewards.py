import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mobilerl.algorithms.rewards import repetition_penalty, shortest_path_adjustment

torch.set_num_threads(1)


def spa(reward, length, group, alpha=1.0):
    return shortest_path_adjustment(
        torch.tensor(reward, dtype=torch.float64), torch.tensor(length), torch.tensor(group), alpha
    )


def test_the_papers_figure():
    # T_min = 2. T=2: 1 - 0/2 = 1; T=3: 1 - 1/3 = 0.667; the failure stays 0 although it is shortest.
    assert spa([1.0, 1.0, 0.0], [2, 3, 1], [0, 0, 0]).tolist() == pytest.approx([1.0, 2 / 3, 0.0])


def test_alpha_and_groups_that_are_neither_sorted_nor_contiguous():
    # Group 7 (items 0, 2, 4): T_min 4. T=8: 1 - 0.5*4/8 = 0.75; T=4: 1; T=5: 1 - 0.5*1/5 = 0.9.
    # Group -3 (items 1, 3): T_min 10. T=10: 1; T=40, r=0.5: 0.5 * (1 - 0.5*30/40) = 0.3125.
    got = spa([1.0, 1.0, 1.0, 0.5, 1.0], [8, 10, 4, 40, 5], [7, -3, 7, -3, 7], alpha=0.5)
    assert got.tolist() == pytest.approx([0.75, 1.0, 1.0, 0.3125, 0.9])


def test_a_group_without_success_is_all_zero():
    assert spa([0.0, 0.0], [3, 5], [1, 1]).tolist() == [0.0, 0.0]


def test_integer_rewards_give_floats_and_an_empty_batch_stays_empty():
    got = shortest_path_adjustment(torch.tensor([1, 1]), torch.tensor([2, 4]), torch.tensor([0, 0]))
    assert got.dtype == torch.float32
    assert got.tolist() == [1.0, 0.5]
    empty = torch.empty(0)
    assert shortest_path_adjustment(empty, empty, empty.long()).shape == (0,)


@pytest.mark.parametrize(
    ("reward", "length", "group", "alpha", "message"),
    [
        ([1.0], [0], [0], 1.0, "length must be at least 1"),
        ([1.0], [1], [0], 1.5, "alpha"),
        ([-1.0], [1], [0], 1.0, "reward must not be negative"),
        ([float("nan")], [1], [0], 1.0, "reward holds NaN"),
        ([1.0, 1.0], [1], [0], 1.0, "reward has shape"),
        ([1.0], [1], [0.5], 1.0, "group must be"),
    ],
)
def test_bad_input_names_the_argument(reward, length, group, alpha, message):
    with pytest.raises(ValueError, match=message):
        spa(reward, length, group, alpha)


BATCHES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 1.0]), st.integers(1, 50), st.integers(-2, 2)), min_size=1, max_size=20
)


@settings(max_examples=100)
@given(BATCHES, st.floats(0, 1))
def test_equals_the_equation_item_by_item(batch, alpha):
    reward, length, group = (list(column) for column in zip(*batch, strict=True))
    got = spa(reward, length, group, alpha).tolist()
    for i, (r, steps, g) in enumerate(batch):
        if r == 0:
            assert got[i] == 0
        else:
            shortest = min(t for rj, t, gj in batch if gj == g and rj > 0)
            assert got[i] == pytest.approx(r * (1 - alpha * (steps - shortest) / steps))
            assert r * (1 - alpha) - 1e-9 <= got[i] <= r


def test_repetition_penalty_accumulates_is_capped_and_starts_again():
    # Repeats per action: a 0, a 1, a 2, a 3 (0.75 but capped at 0.6), b 0, a 0, a 1.
    got = repetition_penalty(["a", "a", "a", "a", "b", "a", "a"], per_repeat=0.25, cap=0.6)
    assert got == [0.0, -0.25, -0.5, -0.6, 0.0, 0.0, -0.25]


def test_repetition_penalty_edges():
    assert repetition_penalty([], 0.4, 1.0) == []
    assert repetition_penalty(["a", "a"], 0.0, 1.0) == [0.0, 0.0]
    with pytest.raises(ValueError, match="per_repeat and cap"):
        repetition_penalty(["a"], -0.1, 1.0)


@given(st.lists(st.sampled_from("ab"), max_size=12), st.floats(0, 2), st.floats(0, 2))
def test_repetition_penalty_stays_between_minus_cap_and_zero(keys, per_repeat, cap):
    got = repetition_penalty(keys, per_repeat, cap)
    assert len(got) == len(keys)
    assert all(-cap <= p <= 0 for p in got)
    assert all(p == 0 for i, p in enumerate(got) if i == 0 or keys[i] != keys[i - 1])
