"""Failure curriculum filtering, the instruction-value curriculum and the curriculum of learnable tasks."""

import json
import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mobilerl.algorithms.curriculum import FailureCurriculum, InstructionValueCurriculum, LearnableCurriculum

FAIL, SOLVED = [0.0, 0.5], [0.0, 1.0]
"""0.5 is partial credit."""


def after(epochs, **settings_):
    """A curriculum of one task "t" (and "easy", always solved) after t's epochs: F failed, S solved, - not sampled."""
    curriculum = FailureCurriculum(["t", "easy"], **settings_)
    for epoch in epochs:
        curriculum.update({"easy": SOLVED, "t": {"F": FAIL, "S": SOLVED, "-": []}[epoch]})
    return curriculum


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        ("F", 1.0),
        ("FF", math.exp(-2)),  # a cooldown of 3 epochs begins
        ("FFFF", math.exp(-4)),
        ("FFFFF", None),  # the third epoch of the cooldown ended without success
        ("F-F", math.exp(-2)),  # an epoch without samples neither adds to f nor resets it
        ("FF---", None),  # but it ages the cooldown
        ("FFFSF", 1.0),  # a success resets everything: two failures again before the next cooldown
        ("FFFSFF", math.exp(-2)),
        ("FFFFFS", 1.0),  # an episode in flight at the removal succeeds late
    ],
)
def test_weight_of_a_task_by_its_epochs(epochs, expected):
    assert after(epochs).weights().get("t") == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("since_removal", "sampled"),
    [
        ("-", False),
        ("--", True),  # the third epoch after the removal
        ("-----", True),  # still due: nothing sampled it
        ("--F-", False),
        ("--F--", True),  # and three epochs after the probe
    ],
)
def test_a_removed_task_is_probed_every_three_epochs(since_removal, sampled):
    curriculum = after("FFFFF" + since_removal, revisit_every=3)
    assert curriculum.weights().get("t") == (1.0 if sampled else None)
    assert curriculum.removed == {"t"}


def test_probes_come_due_when_no_other_task_is_left():
    curriculum = FailureCurriculum(["a", "b"], patience=1, cooldown=0, revisit_every=4)
    curriculum.update({"a": FAIL, "b": SOLVED})
    curriculum.update({"b": FAIL})
    due = []
    for _ in range(4):
        due.append(list(curriculum.weights()))
        curriculum.update({task: FAIL for task in due[-1]})
    assert due == [["a"], ["b"], ["a"], ["b"]], "b was removed an epoch after a"


TASKS = ["a", "b", "c", "d"]
OUTCOMES = st.dictionaries(st.sampled_from(TASKS), st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0]), max_size=2))


class CurriculumMachine(RuleBasedStateMachine):
    """Compares with f, each task's consecutive failed epochs, counted independently."""

    @initialize(patience=st.integers(1, 3), cooldown=st.integers(0, 3), revisit_every=st.none() | st.integers(1, 3))
    def start(self, **settings_):
        self.settings = settings_
        self.curriculum = FailureCurriculum(TASKS, **settings_)
        self.failed = dict.fromkeys(TASKS, 0)

    @rule(outcomes=OUTCOMES)
    def epoch(self, outcomes):
        removed, cooling = self.curriculum.removed, self.curriculum.cooling
        self.curriculum.update(outcomes)
        for task in TASKS:
            rewards = outcomes.get(task, [])
            if 1.0 in rewards:
                self.failed[task] = 0
                assert task in self.curriculum.active
            else:
                self.failed[task] += bool(rewards)
                assert task not in removed or task in self.curriculum.removed
                assert task not in cooling or task not in self.curriculum.active

    @rule()
    def epoch_in_which_nothing_is_solved(self):
        self.epoch({task: FAIL for task in self.curriculum.weights()})

    @rule(n=st.integers(0, 9), seed=st.integers(0, 99))
    def sample(self, n, seed):
        weights = self.curriculum.weights()
        if not weights:
            with pytest.raises(ValueError, match="removed"):
                self.curriculum.sample(n, random.Random(seed))
            return
        sampled = self.curriculum.sample(n, random.Random(seed))
        assert len(sampled) == n and set(sampled) <= set(weights)
        counts, total = Counter(sampled), sum(weights.values())
        assert all(abs(counts[task] - n * weight / total) < 1 + 1e-9 for task, weight in weights.items())
        if n <= sum(weight == 1.0 for weight in weights.values()):
            assert len(set(sampled)) == n

    @rule()
    def resume(self):
        twin = FailureCurriculum(TASKS, **self.settings)
        twin.load_state_dict(json.loads(json.dumps(self.curriculum.state_dict())))
        assert twin.state_dict() == self.curriculum.state_dict() and twin.weights() == self.curriculum.weights()
        self.curriculum = twin

    @invariant()
    def weights_follow_the_status(self):
        if not hasattr(self, "curriculum"):
            return
        c, weights = self.curriculum, self.curriculum.weights()
        assert sorted([*c.active, *c.cooling, *c.removed]) == TASKS
        for task in c.active:
            assert weights[task] == 1.0 and self.failed[task] < self.settings["patience"]
        for task in c.cooling:
            assert weights[task] == math.exp(-self.failed[task]) and self.failed[task] >= self.settings["patience"]
        assert self.settings["revisit_every"] is not None or not weights.keys() & c.removed
        assert weights or self.settings["revisit_every"] is None


TestCurriculumMachine = CurriculumMachine.TestCase
TestCurriculumMachine.settings = settings(max_examples=60, stateful_step_count=20)


# --- instruction values --------------------------------------------------------------------------------------------

VALUES = {"solved": 0.9, "half": 0.5, "hard": 0.1, "hopeless": 0.0}
"""Scores v (1 - v): 0.09, 0.25, 0.09, 0."""


def valued(values, top_p, **settings_):
    curriculum = InstructionValueCurriculum(values, top_p, **settings_)
    curriculum.update({}, values)
    return curriculum


def test_the_tasks_solved_half_of_the_time_are_preferred():
    # A quarter of four tasks is one. Half is two: the second-largest score is 0.09, which two tasks have.
    curriculum = valued(VALUES, top_p=0.25)
    assert curriculum.weights() == {"solved": 0.1, "half": 1.0, "hard": 0.1, "hopeless": 0.1}
    assert curriculum.counts() == {"active": 1, "cooling": 3, "removed": 0} and len(curriculum.cooling) == 3
    assert valued(VALUES, top_p=0.5, rest=0.2).weights() == {"solved": 1, "half": 1, "hard": 1, "hopeless": 0.2}
    assert len(valued({f"t{i}": 0.01 * i for i in range(25)}, top_p=0.28).active) == 7  # 0.28 * 25 > 7 in floats


def test_values_are_running_means_of_rewards_or_given():
    # 0.5 + 0.3 (1 - 0.5) = 0.65; 0.65 + 0.3 (0.25 - 0.65) = 0.53. Not sampled: unchanged.
    curriculum = InstructionValueCurriculum(["a", "b"], 0.5)
    curriculum.update({"a": [1.0, 1.0]})
    curriculum.update({"a": [0.0, 1.0, 0.0, 0.0], "b": []})
    assert curriculum.state_dict()["values"] == pytest.approx({"a": 0.53, "b": 0.5})
    curriculum.update({"a": [1.0], "b": [1.0]}, values={"a": 0.2})
    assert curriculum.state_dict()["values"] == pytest.approx({"a": 0.2, "b": 0.65})


# --- learnable tasks -----------------------------------------------------------------------------------------------


def learnable(watch=0.05, **outcomes):
    curriculum = LearnableCurriculum(outcomes, watch)
    curriculum.update(outcomes)
    return curriculum


def test_rates_are_those_of_the_newest_episodes():
    # (1 + 0.5) / (4 + 1); then 0.95^2 of both counts and two new successes: (0.9025 + 2.5) / (3.61 + 3).
    curriculum = learnable(a=[1.0, 0.0, 0.0, 0.0], new=[])
    assert curriculum.rates() == pytest.approx({"a": 0.3, "new": 0.5})
    curriculum.update({"a": [1.0, 1.0]})
    assert curriculum.rates() == pytest.approx({"a": 0.514750, "new": 0.5}, abs=1e-6)


def test_learnable_tasks_are_sampled_by_the_variance_of_their_success_and_the_others_are_watched():
    # a: 2.5 / 5 = 0.5, score 0.25; b: 1.5 / 5 = 0.3, score 0.21; solved: 9.5 / 10; hard: 0.5 / 10.
    # A fifth of the draws is 0.25 * 0.46 = 0.115 in the unit of the scores, for two tasks.
    curriculum = learnable(0.2, a=[1, 1, 0, 0], solved=[1] * 9, b=[1, 0, 0, 0], hard=[0] * 9)
    assert curriculum.weights() == pytest.approx({"a": 0.25, "solved": 0.0575, "b": 0.21, "hard": 0.0575})
    assert curriculum.active == {"a", "b"} and curriculum.cooling == {"solved", "hard"}
    assert curriculum.counts() == {"active": 2, "cooling": 2, "removed": 0}
    assert learnable(solved=[1] * 9, hard=[0] * 9).weights() == {"solved": 1.0, "hard": 1.0}, "none is better"


def test_a_watched_task_returns_once_its_success_changes():
    curriculum = learnable(solved=[1] * 20, other=[1, 0])
    for _ in range(2):
        assert curriculum.cooling == {"solved"}
        curriculum.update({"solved": [0, 1]})
    assert curriculum.active == {"solved", "other"}


COUNTS = st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from([0, 1]), max_size=30), min_size=1)


@given(outcomes=COUNTS, watch=st.floats(0.01, 0.9), n=st.integers(1, 200), seed=st.integers(0, 99))
def test_the_watched_share_of_the_draws_is_as_given(outcomes, watch, n, seed):
    curriculum = learnable(watch, **outcomes)
    weights, total = curriculum.weights(), sum(curriculum.weights().values())
    assert weights.keys() == outcomes.keys() and min(weights.values()) > 0
    if curriculum.active and curriculum.cooling:
        assert sum(weights[task] for task in curriculum.cooling) / total == pytest.approx(watch)
    drawn = Counter(curriculum.sample(n, random.Random(seed)))
    assert all(abs(drawn[task] - n * weight / total) < 1 + 1e-9 for task, weight in weights.items())
    mirrored = learnable(watch, **{task: [1 - s for s in made] for task, made in outcomes.items()})
    assert mirrored.weights() == pytest.approx(weights), "failures are as good as successes"


@given(epochs=st.lists(COUNTS, min_size=1, max_size=6), n=st.integers(0, 5), seed=st.integers(0, 99))
def test_a_resumed_curriculum_goes_on_bit_for_bit(epochs, n, seed):
    curriculum = LearnableCurriculum("abcdef")
    for epoch in epochs[:n]:
        curriculum.update(epoch)
    twin = LearnableCurriculum("abcdef")
    twin.load_state_dict(json.loads(json.dumps(curriculum.state_dict())))
    for epoch in epochs[n:]:
        curriculum.update(epoch)
        twin.update(epoch)
    assert twin.state_dict() == curriculum.state_dict()
    assert twin.sample(9, random.Random(seed)) == curriculum.sample(9, random.Random(seed))


def test_what_is_no_success_rate_is_refused_and_changes_nothing():
    curriculum = learnable(a=[1, 0])
    before = curriculum.state_dict()
    for wrong, message in (({"a": [1], "x": [1]}, "unknown task 'x'"), ({"a": [0.5]}, "not 0 or 1")):
        with pytest.raises(ValueError, match=message):
            curriculum.update(wrong)
    impossible = {"counts": {"a": {"successes": 3.0, "episodes": 2.0}}}
    for state in (impossible, {"values": {"a": 0.5}}, {"counts": {"a": {"failed": 1}}}):
        with pytest.raises(ValueError, match="not one of LearnableCurriculum"):
            curriculum.load_state_dict(state)
    assert curriculum.state_dict() == before
    with pytest.raises(ValueError, match="watch"):
        LearnableCurriculum("ab", watch=0.0)


# --- all ----------------------------------------------------------------------------------------------------------


def test_history_carries_over_to_a_run_with_other_tasks():
    later = FailureCurriculum(["new", "t"])
    later.load_state_dict(json.loads(json.dumps(after("FF").state_dict())))
    assert later.weights() == {"new": 1.0, "t": pytest.approx(math.exp(-2))}
    later = InstructionValueCurriculum(["new", "hard"], 0.5)
    later.load_state_dict(json.loads(json.dumps(valued(VALUES, 0.5).state_dict())))
    assert later.state_dict() == {"values": {"new": 0.5, "hard": 0.1}}
    later = LearnableCurriculum(["new", "a"])
    later.load_state_dict(json.loads(json.dumps(learnable(a=[1, 0, 0, 0], old=[1]).state_dict())))
    assert later.rates() == pytest.approx({"new": 0.5, "a": 0.3})
