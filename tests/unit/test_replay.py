"""The three replays: what enters, what leaves, how draws are distributed, and that a restored one continues alike."""

import math
import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from made_groups import make_trajectory

from mobilerl.algorithms.replay import AdaptivePositiveReplay, CircularReplay, PrioritizedReplay, PriorityTerms


def ring(lengths, kind=CircularReplay, **settings_):
    """A buffer with one trajectory per name of `lengths`."""
    buffer = kind(**{"capacity": 50, **settings_})
    buffer.insert([make_trajectory(name, 0.0, length) for name, length in lengths.items()], iteration=0)
    return buffer


def entries(buffer):
    return [(e["trajectory"].id, e["advantage"]) for e in buffer.state_dict()["entries"]]


def test_the_best_successes_enter_and_the_lowest_advantage_leaves():
    buffer = AdaptivePositiveReplay(capacity=3, kappa=2, gamma=0.5)
    batch = [make_trajectory(name, float(name != "failed"), 1) for name in ("low", "failed", "top", "mid")]
    assert buffer.insert(batch, [0.1, 9.0, 2.0, 1.0], iteration=0) == 2
    assert entries(buffer) == [("top", 2.0), ("mid", 1.0)]
    # Neither zero nor negative advantages, nor trajectories without steps, nor half successes, nor known ids.
    batch = [make_trajectory(*row) for row in [("z", 1.0, 1), ("e", 1.0, 0), ("h", 0.5, 1), ("top", 1.0, 1)]]
    assert buffer.insert(batch, [0.0, 1.0, 1.0, 5.0], iteration=1) == 0
    buffer.insert([make_trajectory("x", 1.0, 1), make_trajectory("y", 1.0, 1)], [1.0, 0.5], iteration=2)
    assert entries(buffer) == [("top", 2.0), ("x", 1.0), ("mid", 1.0)], "of equal ones the newest is first"


@pytest.mark.parametrize(
    ("advantages", "shares"),
    [
        ([3.0, 2.0, 1.0], [6 / 11, 3 / 11, 2 / 11]),  # weights 1, 1/2, 1/3 of sum 11/6
        ([2.0, 2.0, 1.0], [3 / 7, 3 / 7, 1 / 7]),  # ranks 1, 1, 3
    ],
)
def test_draws_prefer_high_advantages(advantages, shares):
    buffer, rng = AdaptivePositiveReplay(50, kappa=50, gamma=1.0), random.Random(0)
    buffer.insert([make_trajectory(name, 1.0, 1) for name in "abc"], advantages, iteration=0)
    counts = Counter(buffer.draw(1, rng)[0].trajectory_id for _ in range(6000))  # standard error 0.0064
    assert [counts[name] / 6000 for name in "abc"] == pytest.approx(shares, abs=0.03)


@pytest.mark.parametrize(("batch", "most"), [(3, 0), (4, 1), (10, 2), (40, 10)])
def test_at_most_a_share_gamma_of_a_mini_batch_is_replayed(batch, most):
    buffer = AdaptivePositiveReplay(capacity=4, kappa=4, gamma=0.25)
    buffer.insert([make_trajectory("a", 1.0, 20)], [1.0], 1)
    assert len(buffer.draw(batch, random.Random(0))) == most


def test_samples_get_the_advantages_of_the_draw_and_those_of_zero_are_never_drawn():
    buffer = ring({"a": 3, "b": 2, "c": 1})
    drawn = buffer.draw(9, random.Random(0), {"a": [0.0, -0.5, 0.0], "b": [2.0, 1.0], "gone": [1.0]})
    got = [(s.trajectory_id, s.step, s.advantage, s.replayed) for s in drawn]
    assert got == [("a", 1, -0.5, True), ("b", 0, 2.0, True), ("b", 1, 1.0, True)]


def terms(delta, ratio=1.0, entropy=0.0):
    return PriorityTerms.of([delta], [ratio], [entropy])


def test_priorities_golden():
    # a: mean|delta| = (0.2 + 0.4)/2 = 0.3; mean min(1, rho) = (1 + 0.5)/2 = 0.75; mean Ent = (1 + 3)/2 = 2.
    # b: 0.1, 0.2, 4. The largest step of all: |delta| 0.4, Ent 4.
    # p_a = 2 * 0.3/0.4 + 1 * 0.75 + 0.5 * 2/4 = 1.5 + 0.75 + 0.25 = 2.5
    # p_b = 2 * 0.1/0.4 + 1 * 0.2  + 0.5 * 4/4 = 0.5 + 0.2  + 0.5  = 1.2
    # c, never measured: 2 + 1 + 0.5 = 3.5.  Square roots 1.581139, 1.095445, 1.870829, sum 4.547413.
    buffer = ring({"a": 2, "b": 1, "c": 1}, PrioritizedReplay, alpha=0.5, weights=(2.0, 1.0, 0.5))
    assert buffer.update({"a": PriorityTerms.of([0.2, -0.4], [2.0, 0.5], [1.0, 3.0]), "b": terms(0.1, 0.2, 4.0)}) == 2
    assert buffer.priorities() == pytest.approx({"a": 2.5, "b": 1.2, "c": 3.5})
    expected = {"a": 0.347701, "b": 0.240894, "c": 0.411405}
    assert buffer.probabilities() == pytest.approx(expected, abs=1e-6)
    advantages, rng = {"a": [1.0, 1.0], "b": [1.0], "c": [1.0]}, random.Random(5)
    counts = Counter(buffer.draw(1, rng, advantages)[0].trajectory_id for _ in range(6000))
    assert {name: n / 6000 for name, n in counts.items()} == pytest.approx(expected, abs=0.03)


def test_priorities_are_normalized_by_the_largest_delta_ever_seen():
    buffer = ring({"a": 1}, PrioritizedReplay, capacity=1, weights=(1.0, 0.0, 0.0))
    buffer.update({"a": terms(0.8)})
    buffer.insert([make_trajectory("b", 0.0, 1)], 1)
    assert buffer.priorities() == {"b": 1.0}  # nothing is left of a but the maximum
    assert buffer.update({"a": terms(9.0), "b": terms(0.2)}) == 1
    assert buffer.priorities() == {"b": pytest.approx(0.25)}


ITEMS = st.lists(
    st.tuples(
        st.integers(0, 30), st.integers(0, 4), st.sampled_from([0.0, 1.0]), st.sampled_from([-1.0, 0.0, 0.5, 2.0])
    ),
    max_size=8,
)


class ReplayMachine(RuleBasedStateMachine):
    """Inserts, draws and restarts of any replay."""

    @initialize(
        kind=st.sampled_from([AdaptivePositiveReplay, CircularReplay, PrioritizedReplay]),
        capacity=st.integers(1, 6),
        kappa=st.integers(1, 4),
        gamma=st.floats(0, 1),
        max_age=st.none() | st.integers(0, 3),
    )
    def start(self, kind, capacity, **settings_):
        self.adaptive = kind is AdaptivePositiveReplay
        self.new = lambda: kind(capacity, **(settings_ if self.adaptive else {}))
        self.capacity, self.settings = capacity, settings_
        self.buffer, self.rng, self.iteration = self.new(), random.Random(0), 0
        self.expected: list[str] = []
        """Ids that a ring should hold."""
        self.advantages: dict[str, list[float]] = {}

    def insert_into(self, buffer, items):
        batch = [make_trajectory(f"t{name}", reward, steps) for name, steps, reward, _ in items]
        if self.adaptive:
            return buffer.insert(batch, [a for *_, a in items], self.iteration)
        return buffer.insert(batch, self.iteration)

    def draw_from(self, buffer, batch_size, rng):
        return buffer.draw(batch_size, rng, *([] if self.adaptive else [self.advantages]))

    @rule(items=ITEMS)
    def insert(self, items):
        self.iteration += 1
        entered = self.insert_into(self.buffer, items)
        if self.adaptive:
            assert entered <= self.settings["kappa"]
            return
        new = dict.fromkeys(f"t{name}" for name, steps, *_ in items if steps and f"t{name}" not in self.expected)
        assert entered == len(new)
        self.expected = [*self.expected, *new][-self.capacity :]
        self.advantages = {t.id: [self.rng.choice([0.0, 1.0]) for _ in t.steps] for t in self.buffer.trajectories}

    @rule(batch_size=st.integers(0, 20))
    def draw(self, batch_size):
        drawn = self.draw_from(self.buffer, batch_size, self.rng)
        assert len({(s.trajectory_id, s.step) for s in drawn}) == len(drawn) and all(s.replayed for s in drawn)
        if self.adaptive:
            held = {e["trajectory"].id: e for e in self.buffer.state_dict()["entries"]}
            size = sum(len(e["trajectory"].steps) for e in held.values())
            assert len(drawn) == min(math.floor(self.settings["gamma"] * batch_size), size)
            assert all(held[s.trajectory_id]["advantage"] == s.advantage for s in drawn)
            return
        eligible = [a for steps in self.advantages.values() for a in steps]
        if not isinstance(self.buffer, PrioritizedReplay):
            eligible = [a for a in eligible if a]
        assert len(drawn) == min(batch_size, len(eligible))
        assert all(self.advantages[s.trajectory_id][s.step] == s.advantage for s in drawn)

    @rule(batch_size=st.integers(0, 20), items=ITEMS)
    def resume(self, batch_size, items):
        """A restored buffer continues exactly as the one that was saved."""
        twin, rng = self.new(), random.Random()
        twin.load_state_dict(self.buffer.state_dict())
        self.insert(items)
        self.insert_into(twin, items)
        assert twin.state_dict() == self.buffer.state_dict()
        rng.setstate(self.rng.getstate())
        assert self.draw_from(twin, batch_size, rng) == self.draw_from(self.buffer, batch_size, self.rng)
        assert rng.getstate() == self.rng.getstate()
        self.buffer = twin

    @invariant()
    def bounded_and_ordered(self):
        if not hasattr(self, "buffer"):
            return
        held = self.buffer.state_dict()["entries"]
        assert len(held) == len(self.buffer) <= self.capacity
        if not self.adaptive:
            assert [e["trajectory"].id for e in held] == self.expected
            return
        assert all(e["trajectory"].success and e["advantage"] > 0 for e in held)
        assert len({e["trajectory"].id for e in held}) == len(held)
        assert [e["advantage"] for e in held] == sorted((e["advantage"] for e in held), reverse=True)
        max_age = self.settings["max_age"]
        assert max_age is None or all(self.iteration - e["iteration"] <= max_age for e in held)


TestReplayMachine = ReplayMachine.TestCase
TestReplayMachine.settings = settings(max_examples=60, stateful_step_count=15)
