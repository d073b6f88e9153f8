"""AdaGRPO, and what it shares with GiGPO: advantages of groups, and samples ready for the clipped loss."""

import math
import random
from collections import Counter

import pytest
from made_algorithms import make
from made_groups import make_group

from mobilerl.config.algorithms import AdaGRPOSection

GROUPS = [make_group("g", (1, 0), (2, 3)), make_group("h", (0, 1), (4, 3)), make_group("c", (0, 0), (2, 2))]


def advantages(groups, **settings) -> list[float]:
    algorithm = make(AdaGRPOSection(**settings))
    algorithm.add(groups, 1)
    return list(algorithm.advantages().values())


def samples(algorithm, groups=GROUPS, iteration=1):
    algorithm.add(groups, iteration)
    return [s for batch in algorithm.mini_batches(random.Random(0)) for s in batch]


STD = math.sqrt(0.171875)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        # Rewards 1 1 0 0 in 2, 4, 3, 3 steps. SPA: R = 1, 2/4 = 0.5, 0, 0; mean 0.375.
        # Centred: 0.625, 0.125, -0.375, -0.375; variance (0.390625 + 0.015625 + 2 * 0.140625) / 4 = 0.171875.
        ({}, [0.625 / STD, 0.125 / STD, -0.375 / STD, -0.375 / STD]),
        ({"spa": False}, [1, 1, -1, -1]),
        # R = 1, 1 - 0.5 * (4 - 2) / 4 = 0.75, 0, 0; mean 0.4375.
        ({"normalize_std": False}, [0.625, 0.125, -0.375, -0.375]),
    ],
)
def test_advantages_golden(settings, wanted):
    assert advantages([make_group("g", (1, 1, 0, 0), (2, 4, 3, 3))], **settings) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(
    ("rewards", "lengths", "spa", "informative"),
    [
        ((0, 0, 0), (3, 4, 5), True, False),  # nobody succeeded
        ((1, 1, 1), (4, 4, 4), True, False),  # everybody did, equally fast
        ((1, 1, 1), (4, 4, 5), True, True),  # the shortest-path adjustment finds a difference
        ((1, 1, 1), (4, 4, 5), False, False),
        ((1,), (4,), True, False),  # nobody to compare with
        ((), (), True, False),
    ],
)
def test_groups_without_advantages_are_uninformative_and_dropped(rewards, lengths, spa, informative):
    group = make_group("g", rewards, lengths)
    algorithm = make(AdaGRPOSection(spa=spa, replay={"gamma": 0.0}))
    assert algorithm.informative(group) == [informative] * len(rewards)
    assert len(samples(algorithm, [group])) == (sum(lengths) if informative else 0)
    kept = make(AdaGRPOSection(spa=spa, dynamic_sampling=False, replay={"gamma": 0.0}))
    assert len(samples(kept, [group])) == sum(lengths) and kept.max_resample_rounds == 0


def test_samples_carry_the_advantage_of_their_trajectory():
    algorithm = make(AdaGRPOSection(epochs=2, replay={"gamma": 0.0}))
    drawn = samples(algorithm)
    assert set(Counter((s.trajectory_id, s.step) for s in drawn).values()) == {2} and len(drawn) == 2 * 12
    assert all(s.advantage == algorithm.advantages()[s.trajectory_id] for s in drawn)
    assert all(s.old_logprobs is None and s.ref_logprobs is None and not s.replayed for s in drawn)


def test_replayed_samples_keep_their_rollout_log_probabilities():
    settings = AdaGRPOSection(replay={"gamma": 0.5}, loss={"recompute_old": True, "kl_coef": 0.1})
    algorithm = make(settings, shift=1.0)
    samples(algorithm)
    drawn = samples(algorithm, [make_group("i", (1, 0), (5, 5))], iteration=2)
    assert {s.replayed for s in drawn} == {True, False} and algorithm.metrics() == {"replay/size": 3}
    for s in drawn:
        recomputed = tuple(lp + 0.5 for lp in s.rollout_logprobs)
        assert s.old_logprobs == (None if s.replayed else recomputed)
        assert s.ref_logprobs == (-2.0, -2.0)


def test_a_restored_algorithm_continues_with_the_same_batches():
    straight, resumed = (make(AdaGRPOSection(replay={"gamma": 0.5})) for _ in range(2))
    samples(straight)
    resumed.load_state_dict(straight.state_dict())
    following = [make_group("i", (1, 0), (5, 5))]
    assert samples(straight, following, 2) == samples(resumed, following, 2)
