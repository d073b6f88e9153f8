"""Mini-batches of fresh and replayed samples, and the metrics of the steps that are made of them."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_algorithms import make
from made_groups import make_trajectory

from mobilerl.algorithms.batching import mini_batches
from mobilerl.algorithms.objectives import imitation
from mobilerl.algorithms.replay import AdaptivePositiveReplay
from mobilerl.config.algorithms import FilteredBCSection
from mobilerl.train.learner import learn


def filled(gamma: float, trajectories: int) -> AdaptivePositiveReplay:
    replay = AdaptivePositiveReplay(64, 64, gamma)
    old = [make_trajectory(f"old-{i}", 1.0, 3) for i in range(trajectories)]
    replay.insert(old, [1.0 + i for i in range(trajectories)], 1)
    return replay


def fresh_samples(*lengths):
    """The samples of one trajectory of each length."""
    return [s for i, n in enumerate(lengths) for s in make_trajectory(f"new-{i}", 1.0, n).samples(0.5)]


@given(
    lengths=st.lists(st.integers(1, 12), max_size=40),
    size=st.integers(1, 64),
    gamma=st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.75, 0.9]),
    buffered=st.integers(0, 12),
    with_replay=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_trajectories_stay_whole_and_replay_keeps_its_share(lengths, size, gamma, buffered, with_replay, seed):
    fresh = fresh_samples(*lengths)
    replay = filled(gamma, buffered) if with_replay else None
    batches = list(mini_batches(fresh, replay, size, random.Random(seed)))
    parts = [[s for s in batch if not s.replayed] for batch in batches]
    trajectories = Counter(name for part in parts for name in {s.trajectory_id for s in part})
    assert trajectories == Counter({f"new-{i}": 1 for i in range(len(lengths))})
    assert sorted(id(s) for part in parts for s in part) == sorted(map(id, fresh))
    for batch, part in zip(batches, parts, strict=True):
        assert part  # no step on replayed samples alone
        assert len(batch) - len(part) <= (gamma * len(batch) + 1e-9 if with_replay else 0)


def test_a_full_buffer_fills_its_whole_share():
    # 64 samples wanted, a quarter replayed: 48 fresh and 16 old; 100 fresh ones are cut in 2 x 50, which take 16 each.
    made = list(mini_batches(fresh_samples(*[5] * 20), filled(0.25, 20), 64, random.Random(0)))
    assert [(len(batch), sum(s.replayed for s in batch)) for batch in made] == [(66, 16), (66, 16)]


class RecordingEngine:
    version = 7

    def __init__(self) -> None:
        self.objectives = []

    def update(self, batch, objective, aggregation):
        assert aggregation == "sample-mean"
        self.objectives.append(objective)
        n = len(self.objectives)
        return {"loss": float(n), "ratio_max": float(n % 3), **({"rare": 5.0} if n == 2 else {})}


def test_metrics_of_an_iteration():
    """Losses 1, 2, 3 are averaged; of the maxima 1, 2, 0 the largest counts."""
    old = filled(1.0, 2).draw(2, random.Random(0))
    batches = [fresh_samples(4) + old, fresh_samples(4), fresh_samples(2)]
    metrics = learn(RecordingEngine(), make(FilteredBCSection()), batches)
    assert metrics == {
        "train/loss": 2.0,
        "train/ratio_max": 2.0,
        "train/rare": 5.0,
        "train/samples": 12.0,
        "train/steps": 3.0,
        "replay/fraction": 2 / 12,
        "replay/size": 0,
    }


@pytest.mark.parametrize(("version", "replayed", "compared"), [(7, False, True), (6, False, False), (7, True, False)])
def test_trainer_and_rollout_are_compared_on_the_first_step_of_current_samples(version, replayed, compared):
    engine = RecordingEngine()
    batch = make_trajectory("t", 1.0, 2, version=version).samples(1.0, replayed=replayed)
    learn(engine, make(FilteredBCSection()), [batch, batch])
    assert [objective is not imitation for objective in engine.objectives] == [compared, False]
