"""Mini-batches of fresh and replayed rows, and what the learner hands to an engine (a fake one, which records)."""

import math
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_groups import make_group, make_task, make_trajectory

from mobilerl.algorithms.losses import aggregation_weights
from mobilerl.algorithms.replay import AdaptivePositiveReplay
from mobilerl.config import AlgorithmSection, CreditSection, LossSection, TrainSection
from mobilerl.records import Batch, Group
from mobilerl.train.credit import assign_credit
from mobilerl.train.learner import Learner, mini_batches


def filled(gamma: float, trajectories: int, length: int = 3) -> AdaptivePositiveReplay:
    replay = AdaptivePositiveReplay(64, 64, gamma)
    old = [make_trajectory(f"old-{i}", 1.0, length) for i in range(trajectories)]
    replay.insert(old, [1.0 + i for i in range(trajectories)], 1)
    return replay


def fresh_samples(*lengths):
    """The rows of one trajectory of each length, with advantage 0.5."""
    return [(r, 0.5) for i, n in enumerate(lengths) for r in make_trajectory(f"new-{i}", 1.0, n).rows()]


@given(
    lengths=st.lists(st.integers(1, 12), max_size=40),
    size=st.integers(1, 64),
    gamma=st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.75, 0.9]),
    buffered=st.integers(0, 12),
    with_replay=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_whole_trajectories_come_once_and_replay_keeps_its_share(lengths, size, gamma, buffered, with_replay, seed):
    fresh = fresh_samples(*lengths)
    replay = filled(gamma, buffered) if with_replay else None
    made = list(mini_batches(fresh, replay, size, random.Random(seed)))

    trajectories = Counter(name for part, _ in made for name in {row.trajectory_id for row, _ in part})
    assert trajectories == Counter({f"new-{i}": 1 for i in range(len(lengths))})
    assert sorted(id(row) for part, _ in made for row, _ in part) == sorted(id(row) for row, _ in fresh)
    for part, replayed in made:
        assert part  # no step on replayed rows alone
        assert len(replayed) <= gamma * (len(part) + len(replayed)) + 1e-9
        assert with_replay or not replayed
        assert all(row.trajectory_id.startswith("old-") for row, _ in replayed)
    if fresh:
        # Without replay, or with an empty buffer, a mini-batch is all fresh.
        room = max(1, size - math.floor((gamma if with_replay and buffered else 0.0) * size))
        steps = max(1, round(len(fresh) / room))
        assert len(made) <= steps
        # As near to an equal cut as whole trajectories allow.
        assert all(abs(len(part) - len(fresh) / steps) <= max(lengths) for part, _ in made) or len(made) < steps


def test_a_full_buffer_fills_the_whole_share():
    # 64 rows wanted, a quarter replayed: 48 fresh and 16 old; 100 fresh rows are cut in 2 x 50, which take 16 each.
    made = list(mini_batches(fresh_samples(*[5] * 20), filled(0.25, 20), 64, random.Random(0)))
    assert [(len(part), len(old)) for part, old in made] == [(50, 16), (50, 16)]


def test_a_long_trajectory_has_no_more_weight_than_a_short_one_in_whatever_mini_batches():
    made = list(mini_batches(fresh_samples(*[2, 12] * 30), None, 40, random.Random(0)))
    weight = Counter()
    for part, _ in made:
        names = [row.trajectory_id for row, _ in part]
        ids = torch.tensor([list(dict.fromkeys(names)).index(name) for name in names])
        share = aggregation_weights(torch.ones(len(part), 3), "trajectory-mean", ids).sum(1) * len(ids.unique())
        for name, value in zip(names, share.tolist(), strict=True):
            weight[name] += value
    assert len(made) > 5
    assert list(weight.values()) == pytest.approx([1.0] * 60)


def test_the_order_is_drawn_and_repeatable():
    made = [list(mini_batches(fresh_samples(*[2] * 20), None, 10, random.Random(seed))) for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]


@dataclass
class RecordingEngine:
    """Log-probability -1.0 for every token of the policy, -2.0 of the reference."""

    version: int = 0
    batches: list[Batch] = field(default_factory=list)
    asked: list[tuple[int, bool]] = field(default_factory=list)

    def logprobs(self, rows, reference=False):
        self.asked.append((len(rows), reference))
        return [(-2.0 if reference else -1.0,) * len(r.response_ids) for r in rows]

    def update(self, batch, objective, agg):
        self.batches.append(batch)
        n = len(self.batches)
        return {"loss": float(n), "ratio_max": float(n % 3)}


def learn(loss: LossSection | None = None, replay=None, passes: int = 1, mini_batch: int = 4):
    engine = RecordingEngine()
    groups = [make_group("g", (1, 0), (2, 3)), make_group("h", (0, 1), (4, 3))]
    credited = assign_credit(groups, CreditSection())
    algorithm = AlgorithmSection(loss=loss or LossSection())
    learner = Learner(engine, algorithm, TrainSection(mini_batch=mini_batch, passes=passes))
    return engine, learner.learn(credited, replay, random.Random(0)), credited


def test_rows_carry_their_trajectorys_advantage():
    engine, metrics, credited = learn()
    wanted = {c.trajectory.id: c.advantage for c in credited}
    for batch in engine.batches:
        assert [wanted[r.trajectory_id] for r in batch.rows] == list(batch.advantages)
        assert batch.old_logprobs is None and batch.ref_logprobs is None and not any(batch.replayed)
    # 12 rows in mini-batches of 4. Losses 1, 2, 3 are averaged; of the maxima 1, 2, 0 the largest counts.
    assert metrics["train/steps"] == 3 and metrics["train/rows"] == 12
    assert metrics["train/loss"] == 2.0 and metrics["train/ratio_max"] == 2.0


def test_sampler_and_trainer_are_compared_only_on_what_the_weights_that_learn_have_drawn():
    engine, objectives, task = RecordingEngine(version=7), [], make_task()
    engine.update = lambda batch, objective, agg: objectives.append((batch.version, objective)) or {"loss": 0.0}
    for version in (7, 6):
        group = Group(task, tuple(make_trajectory(f"g-{i}", float(i), 2, task, version) for i in range(2)))
        learner = Learner(engine, AlgorithmSection(), TrainSection(mini_batch=4))
        learner.learn(assign_credit([group], CreditSection()), None, random.Random(0))
    (seven, measured), (again, plain) = objectives
    assert (seven, again) == (7, 7) and plain is learner.objective and measured.__name__ == "measured"


def test_passes_go_through_all_rows_again():
    engine, metrics, _ = learn(passes=2)
    seen = Counter((r.trajectory_id, r.step) for batch in engine.batches for r in batch.rows)
    assert len(seen) == 12 and set(seen.values()) == {2} and metrics["train/rows"] == 24


def test_replayed_rows_keep_their_own_log_probabilities_when_old_ones_are_recomputed():
    engine, metrics, _ = learn(LossSection(recompute_old=True), filled(0.5, 4))
    assert engine.asked == [(12, False)]
    for batch in engine.batches:
        assert any(batch.replayed)
        for row, again, old in zip(batch.rows, batch.replayed, batch.old_logprobs, strict=True):
            assert old == (row.rollout_logprobs if again else (-1.0, -1.0))
    assert 0 < metrics["replay/fraction"] <= 0.5


def test_a_kl_term_asks_for_the_reference_of_every_row():
    engine, _, _ = learn(LossSection(kl_coef=0.1), filled(0.5, 4))
    for batch in engine.batches:
        assert batch.ref_logprobs == [(-2.0, -2.0)] * len(batch.rows)


@pytest.mark.parametrize("recompute", [False, True])
def test_nothing_to_learn_from_is_no_step(recompute):
    engine = RecordingEngine()
    algorithm = AlgorithmSection(loss=LossSection(recompute_old=recompute))
    metrics = Learner(engine, algorithm, TrainSection()).learn([], filled(0.5, 4), random.Random(0))
    assert not engine.batches and metrics == {"replay/fraction": 0.0, "train/rows": 0.0, "train/steps": 0.0}
