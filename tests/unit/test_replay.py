import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from envs.base import Back, Observation, Task
from mobilerl.algorithms.replay import AdaptivePositiveReplay
from mobilerl.records import Completion, Status, Step, Trajectory

TASK = Task(id="t", template="t", instruction="do it", params={}, seed=0, max_steps=9, suite="sim")


def trajectory(name, steps=1, reward=1.0):
    def step(i):
        completion = Completion(
            prompt_ids=(i,), token_ids=(10 + i, 11), logprobs=(-0.1 * (i + 1), -0.3), version=4, text="x"
        )
        return Step(Observation(b"", 1, 1, "", "", i), completion, (), "", Back())

    return Trajectory(name, TASK, tuple(step(i) for i in range(steps)), reward, Status.FINISHED, "phone-0")


def filled(advantages, steps=1, **settings_):
    """A buffer holding one trajectory per advantage: names a, b, c, ..."""
    buffer = AdaptivePositiveReplay(**{"capacity": 50, "kappa": 50, "gamma": 1.0, **settings_})
    names = "abcdefghijklmnopqrstuvwxyz"[: len(advantages)]
    buffer.insert([trajectory(name, steps) for name in names], advantages, iteration=0)
    return buffer


def content(buffer):
    return [(e["trajectory"].id, e["advantage"], e["iteration"]) for e in buffer.state_dict()["entries"]]


# --- insert --------------------------------------------------------------------------------------------------------


def test_the_best_kappa_successes_enter_in_order_of_advantage():
    buffer = AdaptivePositiveReplay(capacity=10, kappa=2, gamma=0.5)
    batch = [trajectory("low"), trajectory("failed", reward=0.0), trajectory("top"), trajectory("mid")]
    assert buffer.insert(batch, [0.1, 9.0, 2.0, 1.0], iteration=0) == 2
    assert content(buffer) == [("top", 2.0, 0), ("mid", 1.0, 0)]
    assert len(buffer) == 2


def test_only_successes_with_steps_and_a_positive_advantage_are_eligible():
    buffer = AdaptivePositiveReplay(capacity=10, kappa=10, gamma=0.5)
    batch = [trajectory("zero"), trajectory("worse"), trajectory("empty", steps=0), trajectory("partial", reward=0.5)]
    assert buffer.insert(batch, [0.0, -1.0, 1.0, 1.0], iteration=0) == 0
    assert len(buffer) == buffer.size_rows == 0


def test_over_capacity_the_lowest_advantage_leaves_and_of_equal_ones_the_oldest():
    buffer = AdaptivePositiveReplay(capacity=2, kappa=5, gamma=0.5)
    buffer.insert([trajectory("a"), trajectory("b")], [1.0, 3.0], iteration=0)
    buffer.insert([trajectory("c")], [1.0], iteration=1)
    assert content(buffer) == [("b", 3.0, 0), ("c", 1.0, 1)]
    buffer.insert([trajectory("d")], [0.5], iteration=2)
    assert content(buffer) == [("b", 3.0, 0), ("c", 1.0, 1)]


def test_a_known_id_is_ignored_and_takes_no_place_among_the_kappa():
    buffer = AdaptivePositiveReplay(capacity=5, kappa=1, gamma=0.5)
    buffer.insert([trajectory("a")], [1.0], iteration=0)
    buffer.insert([trajectory("a"), trajectory("b"), trajectory("b")], [5.0, 2.0, 2.0], iteration=1)
    assert content(buffer) == [("b", 2.0, 1), ("a", 1.0, 0)]


def test_entries_older_than_max_age_are_dropped_by_the_next_insert():
    buffer = filled([1.0], max_age=2)
    buffer.insert([], [], iteration=2)
    assert len(buffer) == 1
    buffer.insert([], [], iteration=3)
    assert len(buffer) == 0


def test_bad_input_is_named():
    for settings_, message in [
        ({"capacity": 0}, "capacity"),
        ({"kappa": 0}, "kappa"),
        ({"gamma": 1.1}, "gamma"),
        ({"max_age": -1}, "max_age"),
        ({"order": "best"}, "order"),
    ]:
        with pytest.raises(ValueError, match=message):
            AdaptivePositiveReplay(**{"capacity": 1, "kappa": 1, "gamma": 0.5, **settings_})
    buffer = filled([1.0])
    with pytest.raises(ValueError, match="iteration 0 after iteration 0"):
        buffer.insert([], [], iteration=0)
    with pytest.raises(ValueError, match="1 trajectories but 2 advantages"):
        buffer.insert([trajectory("z")], [1.0, 2.0], iteration=1)
    with pytest.raises(ValueError, match="NaN"):
        buffer.insert([trajectory("z")], [math.nan], iteration=1)
    with pytest.raises(ValueError, match="no field 'entries'"):
        buffer.load_state_dict({})


# --- draw ----------------------------------------------------------------------------------------------------------


def test_rows_carry_the_log_probabilities_they_were_sampled_with():
    buffer = filled([1.5], steps=2)
    assert buffer.size_rows == 2
    (first, a), (second, b) = buffer.draw(8, random.Random(0))
    assert (a, b) == (1.5, 1.5)
    assert (first.trajectory_id, first.step, second.step) == ("a", 0, 1)
    assert first.response_ids == (10, 11)
    assert first.rollout_logprobs == (-0.1, -0.3)
    assert second.rollout_logprobs == (-0.2, -0.3)
    assert first.version == 4


@pytest.mark.parametrize(
    ("gamma", "batch", "rows"), [(0.25, 8, 2), (0.25, 7, 1), (0.25, 3, 0), (0.0, 99, 0), (1.0, 5, 5)]
)
def test_floor_of_gamma_times_batch(gamma, batch, rows):
    buffer = filled([1.0] * 10, gamma=gamma)
    assert len(buffer.draw(batch, random.Random(0))) == rows


def test_an_empty_or_short_buffer_gives_what_it_has():
    assert AdaptivePositiveReplay(5, 5, 1.0).draw(8, random.Random(0)) == []
    assert len(filled([1.0, 2.0], steps=2).draw(100, random.Random(0))) == 4


def test_only_the_last_trajectory_is_cut():
    buffer = filled([3.0, 2.0, 1.0], steps=4)
    drawn = [row for row, _ in buffer.draw(6, random.Random(1))]
    per_trajectory = [
        len([r for r in drawn if r.trajectory_id == name]) for name in dict.fromkeys(r.trajectory_id for r in drawn)
    ]
    assert per_trajectory == [4, 2]
    assert [r.step for r in drawn[:4]] == [0, 1, 2, 3]
    assert drawn[4].step < drawn[5].step


def first_drawn_share(buffer, draws=6000):
    rng = random.Random(0)
    counts = Counter(buffer.draw(1, rng)[0][0].trajectory_id for _ in range(draws))
    return [counts[name] / draws for name in "abc"]


def test_top_order_prefers_high_advantages_without_repeating_itself():
    # Weights 1, 1/2, 1/3 of sum 11/6: shares 6/11, 3/11, 2/11. Standard error at 6000 draws: 0.0064.
    assert first_drawn_share(filled([3.0, 2.0, 1.0])) == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.03)


def test_equal_advantages_share_a_rank():
    # Ranks 1, 1, 3: weights 1, 1, 1/3 of sum 7/3.
    assert first_drawn_share(filled([2.0, 2.0, 1.0])) == pytest.approx([3 / 7, 3 / 7, 1 / 7], abs=0.03)


def test_uniform_order_prefers_none():
    assert first_drawn_share(filled([3.0, 2.0, 1.0], order="uniform")) == pytest.approx([1 / 3] * 3, abs=0.03)


def test_the_seed_decides_the_draw():
    buffer = filled([1.0 + i for i in range(20)], steps=3)
    assert buffer.draw(10, random.Random(7)) == buffer.draw(10, random.Random(7))
    assert buffer.draw(10, random.Random(7)) != buffer.draw(10, random.Random(8))


def test_loading_into_a_smaller_buffer_keeps_the_best():
    small = AdaptivePositiveReplay(capacity=1, kappa=1, gamma=1.0)
    small.load_state_dict(filled([1.0, 3.0, 2.0]).state_dict())
    assert content(small) == [("b", 3.0, 0)]


# --- invariants ----------------------------------------------------------------------------------------------------

ITEMS = st.lists(
    st.tuples(
        st.integers(0, 30), st.integers(0, 4), st.sampled_from([0.0, 1.0]), st.sampled_from([-1.0, 0.5, 1.0, 2.0])
    ),
    max_size=8,
)


class ReplayMachine(RuleBasedStateMachine):
    @initialize(
        capacity=st.integers(1, 6),
        kappa=st.integers(1, 4),
        gamma=st.floats(0, 1),
        max_age=st.none() | st.integers(0, 3),
        order=st.sampled_from(["top", "uniform"]),
    )
    def start(self, **settings_):
        self.settings = settings_
        self.buffer = AdaptivePositiveReplay(**settings_)
        self.rng = random.Random(0)
        self.iteration = 0

    @rule(items=ITEMS, gap=st.integers(1, 2))
    def insert(self, items, gap):
        self.iteration += gap
        before = {name for name, _, _ in content(self.buffer)}
        batch = [trajectory(f"t{name}", steps, reward) for name, steps, reward, _ in items]
        entered = self.buffer.insert(batch, [a for *_, a in items], self.iteration)
        assert entered <= self.settings["kappa"]
        new = {name for name, _, iteration in content(self.buffer) if iteration == self.iteration}
        assert len(new) <= entered
        if self.settings["max_age"] is None:
            assert not new & before

    @rule(batch_size=st.integers(0, 20))
    def draw(self, batch_size):
        drawn = self.buffer.draw(batch_size, self.rng)
        assert len(drawn) == min(math.floor(self.settings["gamma"] * batch_size), self.buffer.size_rows)
        assert len({(row.trajectory_id, row.step) for row, _ in drawn}) == len(drawn)
        stored = {name: advantage for name, advantage, _ in content(self.buffer)}
        assert all(stored[row.trajectory_id] == advantage for row, advantage in drawn)

    @rule(batch_size=st.integers(0, 20), items=ITEMS)
    def resume(self, batch_size, items):
        """A restored buffer goes on exactly as the one that was saved."""
        twin = AdaptivePositiveReplay(**self.settings)
        twin.load_state_dict(self.buffer.state_dict())
        twin_rng = random.Random()
        twin_rng.setstate(self.rng.getstate())
        self.insert(items, gap=1)
        twin.insert(
            [trajectory(f"t{name}", steps, reward) for name, steps, reward, _ in items],
            [a for *_, a in items],
            self.iteration,
        )
        assert twin.state_dict() == self.buffer.state_dict()
        assert twin.draw(batch_size, twin_rng) == self.buffer.draw(batch_size, self.rng)
        assert twin_rng.getstate() == self.rng.getstate()
        self.buffer = twin

    @invariant()
    def bounded_ordered_and_only_successes(self):
        if not hasattr(self, "buffer"):
            return
        entries = self.buffer.state_dict()["entries"]
        assert len(entries) == len(self.buffer) <= self.settings["capacity"]
        assert all(e["trajectory"].success and e["advantage"] > 0 and e["trajectory"].steps for e in entries)
        assert len({e["trajectory"].id for e in entries}) == len(entries)
        assert [e["advantage"] for e in entries] == sorted((e["advantage"] for e in entries), reverse=True)
        max_age = self.settings["max_age"]
        assert max_age is None or all(self.iteration - e["iteration"] <= max_age for e in entries)


TestReplayMachine = ReplayMachine.TestCase
TestReplayMachine.settings = settings(max_examples=40, stateful_step_count=15)


@settings(max_examples=60)
@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=12), st.integers(1, 6))
def test_what_stays_is_the_best_of_everything_when_nothing_limits_entry(advantages, capacity):
    buffer = AdaptivePositiveReplay(capacity=capacity, kappa=1, gamma=1.0)
    for i, advantage in enumerate(advantages):
        buffer.insert([trajectory(f"t{i}")], [advantage], iteration=i)
    assert [a for _, a, _ in content(buffer)] == sorted(advantages, reverse=True)[:capacity]
