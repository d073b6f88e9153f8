import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobilerl.eval.statistics import cluster_bootstrap_interval, paired_difference, pass_at_k, wilson_interval


def test_wilson_by_hand():
    # n = 10, p = 0.5, z = 1.959964, z^2 = 3.841459: scale 1.3841459, centre 0.6920729/1.3841459 = 0.5,
    # half 1.959964 * sqrt(0.025 + 0.0096036) / 1.3841459 = 0.364595/1.3841459 = 0.263407
    interval = wilson_interval(5, 10)
    assert interval.low == pytest.approx(0.236593, abs=1e-6)
    assert interval.high == pytest.approx(0.763407, abs=1e-6)


def test_wilson_at_the_edges():
    # 0 of 10: low 0, high z^2 / (n + z^2) = 3.841459 / 13.841459 = 0.277533
    assert wilson_interval(0, 10).low == 0.0
    assert wilson_interval(0, 10).high == pytest.approx(0.277533, abs=1e-6)
    assert wilson_interval(10, 10).high == 1.0
    assert (wilson_interval(0, 0).low, wilson_interval(0, 0).high) == (0.0, 1.0)


@given(st.integers(0, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_estimate_and_mirrors(counts):
    c, n = counts
    interval, mirrored = wilson_interval(c, n), wilson_interval(n - c, n)
    assert 0 <= interval.low <= interval.high <= 1
    if n:
        assert interval.low <= c / n <= interval.high
    assert interval.low == pytest.approx(1 - mirrored.high)


@pytest.mark.parametrize("counts", [(3, 2), (-1, 2)])
def test_impossible_counts_are_refused(counts):
    with pytest.raises(ValueError, match="not possible"):
        wilson_interval(*counts)


def test_cluster_bootstrap_sees_the_spread_between_tasks():
    # Two tasks, one always right and one never: a resample of 2 tasks has mean 0, 1/2 or 1, so the interval is all.
    whole = cluster_bootstrap_interval({"a": [1.0] * 50, "b": [0.0] * 50})
    assert (whole.low, whole.high) == (0.0, 1.0)
    assert wilson_interval(50, 100).low > 0.4  # over attempts the same data looks certain
    # The same rate in every task leaves nothing to vary.
    point = cluster_bootstrap_interval({"a": [1.0, 0.0], "b": [0.0, 1.0]})
    assert (point.low, point.high) == (0.5, 0.5)


def test_cluster_bootstrap_is_seeded_and_near_the_normal_interval():
    rng = np.random.default_rng(1)
    outcomes = {str(i): [float(x) for x in rng.random(1) < 0.4] for i in range(400)}
    interval = cluster_bootstrap_interval(outcomes, seed=3)
    assert interval == cluster_bootstrap_interval(outcomes, seed=3)
    mean = sum(v[0] for v in outcomes.values()) / 400
    half = 1.96 * math.sqrt(mean * (1 - mean) / 400)
    assert interval.low == pytest.approx(mean - half, abs=0.01)
    assert interval.high == pytest.approx(mean + half, abs=0.01)


def test_one_task_has_no_spread_to_show():
    with pytest.raises(ValueError, match="at least 2 tasks"):
        cluster_bootstrap_interval({"a": [1.0, 0.0], "empty": []})


def test_paired_difference_by_hand():
    # changes 1, 1, 0, 0: mean 0.5, sd (ddof 1) sqrt(1/3) = 0.577350, half 1.959964 * 0.577350 / 2 = 0.565793
    a = {"w": 0.0, "x": 0.0, "y": 1.0, "z": 0.0}
    b = {"z": 0.0, "y": 1.0, "x": 1.0, "w": 1.0}
    found = paired_difference(a, b)
    assert (found.mean_a, found.mean_b, found.difference, found.instances) == (0.25, 0.75, 0.5, 4)
    assert found.normal.low == pytest.approx(0.5 - 0.565793, abs=1e-6)
    assert found.normal.high == pytest.approx(0.5 + 0.565793, abs=1e-6)
    # a resample's mean is 0 with chance 1/16 = 6.25% and 1 with the same: both beyond the 2.5% tails
    assert (found.bootstrap.low, found.bootstrap.high) == (0.0, 1.0)


def test_pairing_removes_the_difficulty_of_the_instances():
    a = {str(i): float(i % 2) for i in range(200)}
    b = {name: value for name, value in a.items()}
    b["0"] = b["2"] = b["4"] = 1.0
    found = paired_difference(a, b)
    assert found.difference == pytest.approx(3 / 200)
    assert found.normal.high - found.normal.low < 0.04  # unpaired it would be near 0.2


def test_different_instances_are_refused():
    with pytest.raises(ValueError, match="1 only in the first .such as 'x'.*1 only in the second .such as 'z'"):
        paired_difference({"x": 1.0, "y": 1.0}, {"y": 1.0, "z": 1.0})
    with pytest.raises(ValueError, match="at least 2"):
        paired_difference({"x": 1.0}, {"x": 1.0})


def test_pass_at_k_by_hand():
    # 5 trials, 2 successes: C(3,1)/C(5,1) = 3/5, C(3,2)/C(5,2) = 3/10, C(3,4) = 0
    assert [pass_at_k(5, 2, k) for k in (1, 2, 4)] == pytest.approx([0.4, 0.7, 1.0])


@given(st.integers(1, 12), st.data())
def test_pass_at_k_is_the_share_of_subsets_with_a_success(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    from itertools import combinations

    subsets = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


@pytest.mark.parametrize("k", [0, 4])
def test_pass_at_k_needs_k_trials(k):
    with pytest.raises(ValueError, match="pass@"):
        pass_at_k(3, 1, k)
