import math
import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from made_groups import make_trajectory

from mobilerl.algorithms.replay import CircularReplay, PrioritizedReplay, PriorityTerms


def filled(lengths, advantages=None, **settings_):
    """A buffer holding one trajectory per length: names a, b, c, ..."""
    buffer = CircularReplay(**{"capacity": 50, **settings_})
    names = "abcdefghijklmnopqrstuvwxyz"[: len(lengths)]
    trajectories = [make_trajectory(name, 0.0, length) for name, length in zip(names, lengths, strict=True)]
    buffer.insert(trajectories, [1.0] * len(lengths) if advantages is None else advantages, iteration=0)
    return buffer


def drawn(buffer, n, seed=0):
    return [(row.trajectory_id, row.step, advantage) for row, advantage in buffer.draw(n, random.Random(seed))]


def content(buffer):
    return [(e["trajectory"].id, e["advantages"], e["iteration"]) for e in buffer.state_dict()["entries"]]


def test_the_oldest_is_overwritten():
    buffer = CircularReplay(capacity=3)
    assert buffer.insert([make_trajectory(n, 1.0, 1) for n in "ab"], [1.0, 2.0], iteration=0) == 2
    assert buffer.insert([make_trajectory(n, 0.0, 2) for n in "cd"], [[3.0, -3.0], 4.0], iteration=1) == 2
    assert content(buffer) == [("b", [2.0], 0), ("c", [3.0, -3.0], 1), ("d", [4.0, 4.0], 1)]
    assert (len(buffer), buffer.size_rows) == (3, 5)
    assert [t.id for t in buffer.trajectories] == ["b", "c", "d"]
    # More than fit at once: the last ones stay.
    buffer.insert([make_trajectory(n, 0.0, 1) for n in "vwxyz"], [0.0] * 5, iteration=1)
    assert [t.id for t in buffer.trajectories] == ["x", "y", "z"]


def test_known_ids_and_trajectories_without_steps_are_ignored():
    buffer = filled([1])
    batch = [make_trajectory("a", 1.0, 3), make_trajectory("e", 1.0, 0), make_trajectory("f", 1.0, 1)]
    assert buffer.insert(batch, [9.0, 9.0, 9.0], iteration=1) == 1
    assert content(buffer) == [("a", [1.0], 0), ("f", [9.0], 1)]


def test_rows_come_with_their_own_advantages_and_rollout_log_probabilities():
    buffer = filled([2, 1], advantages=[[0.5, -0.25], 2.0])
    assert drawn(buffer, 9) == [("a", 0, 0.5), ("a", 1, -0.25), ("b", 0, 2.0)]
    row = buffer.draw(9, random.Random(0))[1][0]
    assert row.rollout_logprobs == (-0.5, -1.25)


def test_every_row_is_as_likely_as_any_other():
    # Five rows, two drawn: each in 2/5 of 5000 draws, standard error 0.007.
    buffer = filled([1, 3, 1])
    rng = random.Random(0)
    counts = Counter((r.trajectory_id, r.step) for _ in range(5000) for r, _ in buffer.draw(2, rng))
    assert len(counts) == 5
    assert [count / 5000 for count in counts.values()] == pytest.approx([0.4] * 5, abs=0.03)


def test_a_filter_is_a_weight_of_zero():
    buffer = filled([3, 2])
    assert buffer.set_advantages({"a": [0.0, 1.0, 0.0], "b": 0.0, "gone": 1.0}) == 2
    assert drawn(buffer, 9) == [("a", 1, 1.0)]
    assert buffer.size_rows == 5
    buffer.set_advantages({"b": [0.0, 3.0]})  # the newest values keep more
    assert drawn(buffer, 9) == [("a", 1, 1.0), ("b", 1, 3.0)]


@pytest.mark.parametrize("kind", [CircularReplay, PrioritizedReplay])
def test_what_is_withheld_is_not_drawn_until_the_next_filter(kind):
    buffer = kind(50)
    buffer.insert([make_trajectory(name, 1.0, 2) for name in "abc"], [1.0] * 3, iteration=0)
    buffer.withhold(["a", "c"])
    assert {name for name, *_ in drawn(buffer, 9)} == {"b"} and buffer.size_rows == 6
    buffer.withhold(["b"])
    assert {name for name, *_ in drawn(buffer, 9)} == {"a", "c"}


def test_gamma_limits_the_share_and_the_seed_decides():
    assert len(drawn(filled([4, 4], gamma=0.25), 9)) == 2
    assert drawn(filled([4, 4], gamma=0.0), 9) == []
    assert drawn(CircularReplay(3), 9) == []
    buffer = filled([5] * 8)
    assert drawn(buffer, 6, seed=1) == drawn(buffer, 6, seed=1)
    assert drawn(buffer, 6, seed=1) != drawn(buffer, 6, seed=2)


def test_bad_input_is_named_and_changes_nothing():
    for settings_, message in [({"capacity": 0}, "capacity"), ({"capacity": 1, "gamma": 1.5}, "gamma")]:
        with pytest.raises(ValueError, match=message):
            CircularReplay(**settings_)
    buffer = filled([2])
    before = buffer.state_dict()
    new = make_trajectory("z", 1.0, 2)
    for call, message in [
        (lambda: buffer.insert([new], [], 1), "1 trajectories but 0 advantages"),
        (lambda: buffer.insert([new], [1.0], -1), "iteration -1 after iteration 0"),
        (lambda: buffer.insert([new], [[1.0]], 1), "trajectory z has 2 rows but 1 advantages"),
        (lambda: buffer.insert([new], [math.nan], 1), "advantages of trajectory z hold NaN"),
        (lambda: buffer.set_advantages({"a": [1.0]}), "trajectory a has 2 rows but 1 advantages"),
        (lambda: buffer.load_state_dict({"iteration": 3}), "no field 'entries'.*CircularReplay"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
        assert buffer.state_dict() == before


def test_loading_into_a_smaller_buffer_keeps_the_newest():
    small = CircularReplay(capacity=2)
    small.load_state_dict(filled([1, 2, 3]).state_dict())
    assert [t.id for t in small.trajectories] == ["b", "c"]


# --- invariants of both rings --------------------------------------------------------------------------------------

ITEMS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4), st.sampled_from([-1.0, 0.0, 2.0])), max_size=8)


class RingMachine(RuleBasedStateMachine):
    """Beside the buffer runs the list of ids that it should hold."""

    @initialize(
        kind=st.sampled_from([CircularReplay, PrioritizedReplay]), capacity=st.integers(1, 6), gamma=st.floats(0, 1)
    )
    def start(self, kind, **settings_):
        self.kind, self.settings = kind, settings_
        self.buffer = kind(**settings_)
        self.rng = random.Random(0)
        self.expected = []

    @rule(items=ITEMS)
    def insert(self, items):
        batch = [make_trajectory(f"t{name}", 0.0, length) for name, length, _ in items]
        new = dict.fromkeys(t.id for t in batch if t.steps and t.id not in self.expected)
        assert self.buffer.insert(batch, [a for *_, a in items], iteration=0) == len(new)
        self.expected = [*self.expected, *new][-self.settings["capacity"] :]

    @rule(delta=st.floats(-1, 1), ratio=st.floats(0, 3), entropy=st.floats(0, 9), name=st.integers(0, 30))
    def measure(self, delta, ratio, entropy, name):
        if self.kind is PrioritizedReplay:
            changed = self.buffer.update({f"t{name}": PriorityTerms.of([delta], [ratio], [entropy])})
            assert changed == (f"t{name}" in self.expected)

    @rule(batch_size=st.integers(0, 20))
    def draw(self, batch_size):
        drawn = self.buffer.draw(batch_size, self.rng)
        stored = {name: advantages for name, advantages, _ in content(self.buffer)}
        eligible = [a for rows in stored.values() for a in rows if a or self.kind is PrioritizedReplay]
        assert len(drawn) == min(math.floor(self.settings["gamma"] * batch_size), len(eligible))
        assert len({(row.trajectory_id, row.step) for row, _ in drawn}) == len(drawn)
        assert all(stored[row.trajectory_id][row.step] == advantage for row, advantage in drawn)

    @rule(batch_size=st.integers(0, 20))
    def resume(self, batch_size):
        """A restored buffer goes on exactly as the one that was saved."""
        twin = self.kind(**self.settings)
        twin.load_state_dict(self.buffer.state_dict())
        assert twin.state_dict() == self.buffer.state_dict()
        twin_rng = random.Random()
        twin_rng.setstate(self.rng.getstate())
        assert twin.draw(batch_size, twin_rng) == self.buffer.draw(batch_size, self.rng)
        assert twin_rng.getstate() == self.rng.getstate()
        self.buffer = twin

    @invariant()
    def the_newest_in_order(self):
        if not hasattr(self, "buffer"):
            return
        assert [t.id for t in self.buffer.trajectories] == self.expected
        assert len(self.buffer) == len(self.expected) <= self.settings["capacity"]
        if self.kind is PrioritizedReplay and self.expected:
            largest = sum(self.buffer.weights)
            assert all(0 <= p <= largest + 1e-9 for p in self.buffer.priorities().values())
            assert sum(self.buffer.probabilities().values()) == pytest.approx(1.0)


TestRingMachine = RingMachine.TestCase
TestRingMachine.settings = settings(max_examples=50, stateful_step_count=15)
