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
from mobilerl.records.engine import SkippedStep
from mobilerl.training.learner import learn as learn_with
from mobilerl.training.learner import step_counter
from mobilerl.training.skipping import NotFinite


def learn(engine, algorithm, batches):
    return learn_with(engine, algorithm, batches, step_counter(algorithm))


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
    if not fresh:
        assert [len(b) > 0 for b in batches] == [True] * bool(with_replay and gamma and buffered)
        return
    for batch, part in zip(batches, parts, strict=True):
        assert part  # with fresh samples, no step on replayed ones alone
        assert len(batch) - len(part) <= (gamma * len(batch) + 1e-9 if with_replay else 0)
        names = {(s.trajectory_id, s.replayed) for s in batch}
        assert sum(replayed for _, replayed in names) <= gamma * len(names) + 1e-9, "nor of the weight"


@pytest.mark.parametrize(("aggregation", "replayed"), [("sample-mean", 16), ("trajectory-mean", 9)])
def test_a_full_buffer_fills_its_whole_share(aggregation, replayed):
    # 64 samples wanted, a quarter replayed: 48 fresh and 16 old; 100 fresh ones are cut in 2 x 50, which take 16 each.
    # Where trajectories have equal weight, 10 fresh ones take 3 replayed ones, of 3 samples.
    made = list(mini_batches(fresh_samples(*[5] * 20), filled(0.25, 20), 64, random.Random(0), aggregation))
    assert [(len(batch), sum(s.replayed for s in batch)) for batch in made] == [(50 + replayed, replayed)] * 2


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
        "train/skipped_steps": 0.0,
        "replay/fraction": 2 / 12,
        "replay/size": 0,
    }


def test_clip_fractions_and_neg_logp_are_means_over_their_own_samples():
    """A quarter of the weight is replayed; 0.1 of it is clipped, and 0.3 in all. Ten fresh tokens."""

    class Engine(RecordingEngine):
        clip_frac = 0.2

        def update(self, batch, objective, aggregation):
            sums = {"fresh_tokens": 10.0, "fresh_surprise": 5.0, "fresh_k3": 0.2}
            self.clip_frac += 0.1
            return {"clip_frac": self.clip_frac, "clip_frac_replayed": 0.1, "replay_weight": 0.25, **sums}

    metrics = learn(Engine(), make(FilteredBCSection()), [fresh_samples(2)])
    assert metrics["train/clip_frac_replayed"] == pytest.approx(0.4)
    assert metrics["train/clip_frac_fresh"] == pytest.approx(0.2 / 0.75)
    assert metrics["train/neg_logp"] == 0.5 and metrics["train/rollout_k3"] == pytest.approx(0.02)
    assert not any("fresh_" in name for name in metrics)
    more = learn(Engine(), make(FilteredBCSection()), [fresh_samples(2)] * 3)
    assert more["train/clip_frac_first"] == pytest.approx(0.3) and more["train/clip_frac"] == pytest.approx(0.4)


@pytest.mark.parametrize(("version", "replayed", "compared"), [(7, False, True), (6, False, False), (7, True, False)])
def test_trainer_and_rollout_are_compared_on_the_first_step_of_current_samples(version, replayed, compared):
    engine = RecordingEngine()
    batch = make_trajectory("t", 1.0, 2, version=version).samples(1.0, replayed=replayed)
    learn(engine, make(FilteredBCSection()), [batch, batch])
    assert [objective is not imitation for objective in engine.objectives] == [compared, False]


class Skipping(RecordingEngine):
    """Cannot take the steps of these numbers."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self.numbers, self.asked = numbers, 0

    def update(self, batch, objective, aggregation):
        self.asked += 1
        if self.asked in self.numbers:
            raise SkippedStep(f"number {self.asked}")
        return super().update(batch, objective, aggregation)


@pytest.mark.parametrize(
    ("skipped", "asked", "message"),
    [
        ((1, 2, 4, 5), 6, None),
        ((1, 2, 4, 5, 6), 6, "NaN or infinity in number 4, so 3 optimizer steps in a row were skipped"),
        ((2, 3, 4), 4, "NaN or infinity in number 2, so 3 optimizer steps in a row were skipped"),
    ],
)
def test_steps_that_cannot_be_taken_are_counted_and_end_the_training_when_they_are_in_a_row(skipped, asked, message):
    algorithm, engine = make(FilteredBCSection()), Skipping(*skipped)
    counter = step_counter(algorithm)
    metrics = learn_with(engine, algorithm, [fresh_samples(1)] * 6, counter)
    assert engine.asked == asked and metrics["train/skipped_steps"] == len(skipped)
    assert metrics["train/steps"] == asked - len(skipped) == len(engine.objectives)
    if message is None:
        counter.check("x is intact", ended=True)
    else:
        with pytest.raises(NotFinite, match=f"^the objective imitation of FilteredBC: {message}.*; x is intact$"):
            counter.check("x is intact")


def test_a_training_that_took_no_step_at_all_failed():
    algorithm = make(FilteredBCSection())
    counter = step_counter(algorithm)
    metrics = learn_with(Skipping(1, 2), algorithm, [fresh_samples(1)] * 2, counter)
    assert metrics["train/steps"] == 0 and "train/loss" not in metrics
    counter.check("it goes on")
    with pytest.raises(NotFinite, match="all 2 optimizer steps were skipped"):
        counter.check("nothing was saved", ended=True)
    step_counter(algorithm).check("nothing was there to learn from", ended=True)
