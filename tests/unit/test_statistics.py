import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobilerl.eval.statistics import cluster_bootstrap_interval, paired_difference, pass_at_k, wilson_interval


def test_wilson_by_hand():
    # n = 10, p = 0.5, z = 1.959964, z^2 = 3.841459: scale 1.3841459, center 0.6920729/1.3841459 = 0.5,
    # half 1.959964 * sqrt(0.025 + 0.0096036) / 1.3841459 = 0.364595/1.3841459 = 0.263407
    interval = wilson_interval(5, 10)
    assert interval.low == pytest.approx(0.236593, abs=1e-6)
    assert interval.high == pytest.approx(0.763407, abs=1e-6)
    assert wilson_interval(0, 10).high == pytest.approx(0.277533, abs=1e-6)  # z^2 / (n + z^2)
    assert (wilson_interval(0, 0).low, wilson_interval(0, 0).high) == (0.0, 1.0)


def test_cluster_bootstrap_sees_the_spread_between_tasks():
    # Two tasks, one always right and one never: a resample of 2 tasks has mean 0, 1/2 or 1, so the interval is all.
    whole = cluster_bootstrap_interval({"a": [1.0] * 50, "b": [0.0] * 50})
    assert (whole.low, whole.high) == (0.0, 1.0)
    assert wilson_interval(50, 100).low > 0.4  # over attempts the same data looks certain
    # The same rate in every task leaves nothing to vary.
    point = cluster_bootstrap_interval({"a": [1.0, 0.0], "b": [0.0, 1.0]})
    assert (point.low, point.high) == (0.5, 0.5)


def test_paired_difference_by_hand():
    a = {"w": 0.0, "x": 0.0, "y": 1.0, "z": 0.0}
    b = {"z": 0.0, "y": 1.0, "x": 1.0, "w": 1.0}
    found = paired_difference(a, b)
    assert (found.mean_a, found.mean_b, found.difference, found.instances) == (0.25, 0.75, 0.5, 4)
    # a resample's mean is 0 with chance 1/16 = 6.25% and 1 with the same: both beyond the 2.5% tails
    assert (found.bootstrap.low, found.bootstrap.high) == (0.0, 1.0)


def test_different_instances_are_refused():
    with pytest.raises(ValueError, match="1 only in the first .such as 'x'.*1 only in the second .such as 'z'"):
        paired_difference({"x": 1.0, "y": 1.0}, {"y": 1.0, "z": 1.0})
    with pytest.raises(ValueError, match="at least 2"):
        paired_difference({"x": 1.0}, {"x": 1.0})


@given(st.integers(1, 12), st.data())
def test_pass_at_k_is_the_share_of_subsets_with_a_success(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    from itertools import combinations

    subsets = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
