import math

import pytest
from made_groups import make_group

from mobilerl.config import CreditSection
from mobilerl.records import Group
from mobilerl.train.credit import assign_credit


def advantages(groups, **settings) -> list[float]:
    return [c.advantage for c in assign_credit(groups, CreditSection(**settings))]


def test_shorter_successes_earn_more_and_failures_share_what_is_left():
    # Rewards 1 1 0 0 in 2, 4, 3, 3 steps. SPA: R = 1, 2/4 = 0.5, 0, 0; mean 0.375.
    # Centred: 0.625, 0.125, -0.375, -0.375; variance (0.390625 + 0.015625 + 2 * 0.140625) / 4 = 0.171875.
    std = math.sqrt(0.171875)
    wanted = [0.625 / std, 0.125 / std, -0.375 / std, -0.375 / std]
    assert advantages([make_group("g", (1, 1, 0, 0), (2, 4, 3, 3))]) == pytest.approx(wanted, rel=1e-5)


def test_without_spa_the_length_does_not_matter():
    # mean 0.5, std 0.5: +-1.
    got = advantages([make_group("g", (1, 1, 0, 0), (2, 4, 3, 3))], spa=False)
    assert got == pytest.approx([1, 1, -1, -1], rel=1e-5)


def test_half_of_alpha_is_half_of_the_deduction_and_std_can_be_left_out():
    # R = 1, 1 - 0.5 * (4 - 2) / 4 = 0.75, 0, 0; mean 0.4375.
    got = advantages([make_group("g", (1, 1, 0, 0), (2, 4, 3, 3))], spa_alpha=0.5, normalize_std=False)
    assert got == pytest.approx([0.5625, 0.3125, -0.4375, -0.4375])


def test_groups_do_not_see_each_other():
    one, two = make_group("g", (1, 0), (2, 2)), make_group("h", (1, 1, 0), (6, 3, 5))
    assert advantages([one, two]) == pytest.approx(advantages([one]) + advantages([two]))


@pytest.mark.parametrize(
    ("rewards", "lengths", "spa", "informative"),
    [
        ((0, 0, 0), (3, 4, 5), True, False),  # nobody succeeded
        ((1, 1, 1), (4, 4, 4), True, False),  # everybody did, equally fast
        ((1, 1, 1), (4, 4, 5), True, True),  # SPA finds a difference
        ((1, 1, 1), (4, 4, 5), False, False),
        ((1,), (4,), True, False),  # nobody to compare with
    ],
)
def test_constant_groups_are_marked_and_have_no_advantage(rewards, lengths, spa, informative):
    credited = assign_credit([make_group("g", rewards, lengths)], CreditSection(spa=spa))
    assert [c.informative for c in credited] == [informative] * len(rewards)
    assert any(c.advantage for c in credited) == informative


def test_every_trajectory_comes_back_in_its_order():
    groups = [make_group("g", (1, 0), (1, 2)), make_group("h", (0, 1, 0), (3, 2, 1))]
    credited = assign_credit(groups, CreditSection())
    assert [c.trajectory for c in credited] == [t for g in groups for t in g.trajectories]


def test_nothing_collected_gives_nothing():
    assert assign_credit([], CreditSection()) == []
    assert assign_credit([Group(make_group("g", (), ()).task, ())], CreditSection()) == []
