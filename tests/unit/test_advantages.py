import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mobilerl.algorithms.advantages import group_relative, informative
from mobilerl.algorithms.rewards import shortest_path_adjustment

torch.set_num_threads(1)


def test_golden_two_interleaved_groups():
    # Group 5: 1, 0, 0, 1 -> mean 0.5, population std 0.5 -> +-1.
    # Group 9: 1, 0 (items 1, 4) and 0.5 (item 6) -> mean 0.5, std sqrt(1/6) = 0.408248 -> +-1.224745, 0.
    reward = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.5])
    group = torch.tensor([5, 9, 5, 5, 9, 5, 9])
    got = group_relative(reward, group)
    assert got.dtype == torch.float32
    assert got.tolist() == pytest.approx([1, 1.224745, -1, -1, -1.224745, 1, 0], abs=1e-5)
    plain = group_relative(reward, group, normalize_std=False)
    assert plain.tolist() == pytest.approx([0.5, 0.5, -0.5, -0.5, -0.5, 0.5, 0.0])


def test_constant_and_single_member_groups_are_exactly_zero():
    # The mean of three 0.1 is 0.10000000000000002: divided by a small eps the rounding would look like an advantage.
    reward = torch.tensor([0.1, 0.1, 0.1, 0.7], dtype=torch.float64)
    group = torch.tensor([0, 0, 0, 1])
    assert group_relative(reward, group, eps=1e-12).tolist() == [0.0] * 4
    assert informative(reward, group).tolist() == [False] * 4


def test_shortest_path_adjustment_makes_an_all_success_group_informative():
    # R = 1, 2/3, 2/4 -> mean 13/18 = 0.72222, std = sqrt(((5/18)^2 + (1/18)^2 + (4/18)^2) / 3) = 0.207870
    # -> 1.336306, -0.267261, -1.069045.
    group = torch.zeros(3, dtype=torch.long)
    won = torch.ones(3)
    assert not informative(won, group).any()
    shaped = shortest_path_adjustment(won, torch.tensor([2, 3, 4]), group)
    assert informative(shaped, group).all()
    assert group_relative(shaped, group).tolist() == pytest.approx([1.336306, -0.267261, -1.069045], abs=1e-4)


def test_empty_batch_and_bad_input():
    assert group_relative(torch.empty(0), torch.empty(0, dtype=torch.long)).shape == (0,)
    with pytest.raises(ValueError, match="reward holds NaN"):
        group_relative(torch.tensor([float("nan")]), torch.tensor([0]))
    with pytest.raises(ValueError, match="value has shape"):
        informative(torch.zeros(2), torch.tensor([0]))


BATCHES = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.6, 1.0]), st.integers(-2, 3)), min_size=1, max_size=24)


@settings(max_examples=100)
@given(BATCHES)
def test_equals_the_equation_group_by_group(batch):
    reward = torch.tensor([r for r, _ in batch], dtype=torch.float64)
    group = torch.tensor([g for _, g in batch])
    got = group_relative(reward, group).tolist()
    informs = informative(reward, group)
    for i, (r, g) in enumerate(batch):
        members = [rj for rj, gj in batch if gj == g]
        expected = (r - statistics.fmean(members)) / (statistics.pstdev(members) + 1e-6)
        assert got[i] == pytest.approx(expected, abs=1e-9)
        assert informs[i].item() == (len(set(members)) > 1)
    assert torch.equal(informs, informative(torch.tensor(got), group))


@settings(max_examples=50)
@given(BATCHES, st.randoms(use_true_random=False))
def test_order_and_names_of_groups_do_not_matter(batch, random):
    shuffled = random.sample(range(len(batch)), len(batch))
    reward = torch.tensor([r for r, _ in batch], dtype=torch.float64)
    group = torch.tensor([g for _, g in batch])
    expected = group_relative(reward, group)[shuffled]
    got = group_relative(reward[shuffled], 1000 - 7 * group[shuffled])
    torch.testing.assert_close(got, expected)
