import json
import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mobilerl.algorithms.curriculum import FailureCurriculum

FAIL = [0.0, 0.0]
SOLVED = [0.0, 1.0]


def after(epochs, **settings_):
    """A curriculum of one task "t" (and "easy", always solved) after t's epochs: F failed, S solved, - not sampled."""
    curriculum = FailureCurriculum(["t", "easy"], **settings_)
    for epoch in epochs:
        curriculum.update({"easy": SOLVED, **({} if epoch == "-" else {"t": FAIL if epoch == "F" else SOLVED})})
    return curriculum


def weight(epochs, **settings_):
    return after(epochs, **settings_).weights().get("t")


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        ("", 1.0),
        ("F", 1.0),
        ("FF", math.exp(-2)),  # cooldown of 3 epochs begins
        ("FFF", math.exp(-3)),
        ("FFFF", math.exp(-4)),
        ("FFFFF", None),  # the third epoch of the cooldown ended without success
        ("FSF", 1.0),  # not consecutive
        ("F-F", math.exp(-2)),  # an epoch without samples neither adds to f nor resets it
        ("FF-", math.exp(-2)),
        ("FF--", math.exp(-2)),
        ("FF---", None),  # but it ages the cooldown
        ("FF-F-", None),
        ("FFFS", 1.0),
        ("FFFSF", 1.0),  # success forgets everything: two failures again before the next cooldown
        ("FFFSFF", math.exp(-2)),
        ("FFFFFS", 1.0),  # an episode in flight at the removal succeeds late
    ],
)
def test_weight_of_a_task_epoch_by_epoch(epochs, expected):
    assert weight(epochs) == (None if expected is None else pytest.approx(expected))


def test_status_and_counts():
    curriculum = after("FF")
    assert (curriculum.active, curriculum.cooling, curriculum.removed) == ({"easy"}, {"t"}, frozenset())
    curriculum = after("FFFFF")
    assert (curriculum.active, curriculum.cooling, curriculum.removed) == ({"easy"}, frozenset(), {"t"})
    assert isinstance(curriculum.removed, frozenset)
    assert curriculum.counts() == {"active": 1, "cooling": 0, "removed": 1}


def test_patience_and_cooldown_are_settings():
    assert weight("FF", patience=3) == 1.0
    assert weight("FFF", patience=3, cooldown=1) == pytest.approx(math.exp(-3))
    assert weight("FFFF", patience=3, cooldown=1) is None
    assert weight("F", patience=1, cooldown=0) is None


def test_a_task_whose_episodes_all_broke_was_not_sampled():
    curriculum = after("F")
    curriculum.update({"t": []})
    assert curriculum.weights()["t"] == 1.0


def test_partial_reward_is_a_success():
    curriculum = after("FF")
    curriculum.update({"t": [0.0, 0.25]})
    assert curriculum.weights()["t"] == 1.0


@pytest.mark.parametrize(
    ("since_removal", "open_"),
    [
        ("", False),
        ("-", False),
        ("--", True),  # the third epoch after the removal
        ("-----", True),  # still due: nothing sampled it
        ("--F", False),
        ("--F-", False),
        ("--F--", True),  # and three epochs after the probe
    ],
)
def test_revisiting_every_three_epochs(since_removal, open_):
    curriculum = after("FFFFF" + since_removal, revisit_every=3)
    assert curriculum.removed == {"t"}
    assert curriculum.weights().get("t") == (1.0 if open_ else None)


def test_a_successful_probe_brings_the_task_back():
    curriculum = after("FFFFF--S", revisit_every=3)
    assert curriculum.active == {"t", "easy"}
    assert curriculum.weights()["t"] == 1.0


def removed_together(**settings_):
    """Two tasks that were never solved, removed after 5 epochs."""
    curriculum = FailureCurriculum(["a", "b"], patience=2, cooldown=3, **settings_)
    for _ in range(5):
        curriculum.update({"a": FAIL, "b": FAIL})
    return curriculum


def test_probes_come_due_where_nothing_is_left_to_play():
    curriculum = removed_together(revisit_every=4)
    for _ in range(3):  # each failed probe is followed by epochs in which nothing can be played
        assert curriculum.removed == {"a", "b"}
        assert curriculum.weights() == {"a": 1.0, "b": 1.0}
        curriculum.update({"a": FAIL, "b": FAIL})
    curriculum.update({"a": SOLVED, "b": FAIL})
    assert curriculum.weights() == {"a": 1.0}


def test_probes_keep_their_distance_where_nothing_else_is_left():
    curriculum = FailureCurriculum(["a", "b"], patience=1, cooldown=0, revisit_every=4)
    curriculum.update({"a": FAIL, "b": SOLVED})
    curriculum.update({"b": FAIL})
    due = []
    for _ in range(4):
        due.append(list(curriculum.weights()))
        curriculum.update({task: FAIL for task in due[-1]})
    assert due == [["a"], ["b"], ["a"], ["b"]], "b was removed an epoch after a"


def test_a_run_that_was_saved_with_nothing_to_play_goes_on_with_probes():
    saved = removed_together().state_dict()
    curriculum = FailureCurriculum(["a", "b"], revisit_every=4)
    curriculum.load_state_dict(saved)
    assert curriculum.weights() == {"a": 1.0, "b": 1.0}


# --- sample --------------------------------------------------------------------------------------------------------


def test_sample_repeats_no_task_before_all_had_their_turn():
    ids = [f"t{i}" for i in range(5)]
    curriculum = FailureCurriculum(ids)
    for seed in range(20):
        assert len(set(curriculum.sample(3, random.Random(seed)))) == 3
        assert sorted(curriculum.sample(5, random.Random(seed))) == ids
        assert sorted(Counter(curriculum.sample(12, random.Random(seed))).values()) == [2, 2, 2, 3, 3]
    assert curriculum.sample(0, random.Random(0)) == []
    assert curriculum.sample(12, random.Random(3)) == curriculum.sample(12, random.Random(3))
    assert len({tuple(curriculum.sample(5, random.Random(seed))) for seed in range(20)}) > 10


@pytest.mark.parametrize("n", [2, 8, 12])
def test_sampled_shares_follow_the_weights(n):
    # Eight active tasks and one cooling with f = 2: expected counts n/W each and n * exp(-2)/W, W = 8 + exp(-2).
    ids = [f"t{i}" for i in range(8)]
    curriculum = FailureCurriculum([*ids, "hard"])
    for _ in range(2):
        curriculum.update({"hard": FAIL, **{task: SOLVED for task in ids}})
    rng = random.Random(0)
    draws = 12_000
    counts = Counter(task for _ in range(draws) for task in curriculum.sample(n, rng))
    for task in [*ids, "hard"]:
        expected = n * (math.exp(-2) if task == "hard" else 1.0) / (8 + math.exp(-2))
        spread = math.sqrt((expected % 1) * (1 - expected % 1) / draws)  # a count is floor or ceil of expected
        assert counts[task] / draws == pytest.approx(expected, abs=4.5 * spread)


def test_a_lone_cooling_task_is_still_sampled():
    curriculum = FailureCurriculum(["t"])
    for _ in range(4):
        curriculum.update({"t": FAIL})
    assert curriculum.sample(3, random.Random(0)) == ["t"] * 3


def test_when_everything_was_removed_the_error_says_what_to_do():
    curriculum = FailureCurriculum(["t"])
    for _ in range(5):
        curriculum.update({"t": FAIL})
    with pytest.raises(ValueError, match="all 1 tasks were removed.*revisit_every"):
        curriculum.sample(1, random.Random(0))


# --- state and errors ----------------------------------------------------------------------------------------------


def test_history_carries_over_to_a_run_with_other_tasks():
    state = json.loads(json.dumps(after("FF").state_dict()))
    later = FailureCurriculum(["new", "t"])
    later.load_state_dict(state)
    assert later.weights() == {"new": 1.0, "t": pytest.approx(math.exp(-2))}


def test_bad_input_is_named():
    for arguments, message in [
        ({"task_ids": []}, "no tasks"),
        ({"task_ids": ["a", "b", "a"]}, "'a' is listed twice"),
        ({"task_ids": ["a"], "patience": 0}, "patience"),
        ({"task_ids": ["a"], "cooldown": -1}, "cooldown"),
        ({"task_ids": ["a"], "revisit_every": 0}, "revisit_every"),
    ]:
        with pytest.raises(ValueError, match=message):
            FailureCurriculum(**arguments)
    curriculum = after("F")
    before = curriculum.state_dict()
    with pytest.raises(ValueError, match="unknown task 'x'"):
        curriculum.update({"t": SOLVED, "x": SOLVED})
    for state in ({}, {"tasks": {"t": {"fails": 1}}}, {"tasks": 3}):
        with pytest.raises(ValueError, match="not one of FailureCurriculum"):
            curriculum.load_state_dict(state)
    assert curriculum.state_dict() == before


# --- invariants ----------------------------------------------------------------------------------------------------

TASKS = ["a", "b", "c", "d"]
OUTCOMES = st.dictionaries(st.sampled_from(TASKS), st.lists(st.sampled_from([0.0, 0.0, 0.0, 1.0]), max_size=2))


class CurriculumMachine(RuleBasedStateMachine):
    """Beside the curriculum runs f, each task's consecutive failed epochs, counted on its own."""

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
            if any(rewards):
                self.failed[task] = 0
                assert task in self.curriculum.active
                assert self.curriculum.weights()[task] == 1.0
            else:
                self.failed[task] += bool(rewards)
                assert task not in removed or task in self.curriculum.removed
                assert task not in cooling or task not in self.curriculum.active

    @rule()
    def epoch_in_which_nothing_is_solved(self):
        self.epoch({task: FAIL for task in self.curriculum.weights()})

    @rule()
    def neglect_for_a_whole_cooldown(self):
        """Without any success, whatever cools now is removed `cooldown` epochs later."""
        cooling = self.curriculum.cooling
        for _ in range(self.settings["cooldown"]):
            self.curriculum.update({})
        assert cooling <= self.curriculum.removed

    @rule(n=st.integers(0, 9), seed=st.integers(0, 99))
    def sample(self, n, seed):
        weights = self.curriculum.weights()
        if not weights:
            assert self.settings["revisit_every"] is None
            with pytest.raises(ValueError, match="removed"):
                self.curriculum.sample(n, random.Random(seed))
            return
        sampled = self.curriculum.sample(n, random.Random(seed))
        assert len(sampled) == n
        assert set(sampled) <= set(weights)
        counts, total = Counter(sampled), sum(weights.values())
        for task, weight in weights.items():
            assert abs(counts[task] - n * weight / total) < 1 + 1e-9
        if n <= sum(weight == 1.0 for weight in weights.values()):
            assert len(set(sampled)) == n

    @rule()
    def resume(self):
        state = json.loads(json.dumps(self.curriculum.state_dict()))
        twin = FailureCurriculum(TASKS, **self.settings)
        twin.load_state_dict(state)
        assert twin.state_dict() == self.curriculum.state_dict()
        assert twin.weights() == self.curriculum.weights()
        self.curriculum = twin

    @invariant()
    def weights_follow_the_status(self):
        if not hasattr(self, "curriculum"):
            return
        c = self.curriculum
        assert sorted([*c.active, *c.cooling, *c.removed]) == TASKS
        assert sum(c.counts().values()) == len(TASKS)
        weights = c.weights()
        for task in c.active:
            assert weights[task] == 1.0
            assert self.failed[task] < self.settings["patience"]
        for task in c.cooling:
            assert weights[task] == math.exp(-self.failed[task])
            assert self.failed[task] >= self.settings["patience"]
        for task in c.removed:
            assert task not in weights or self.settings["revisit_every"] is not None
        assert weights or self.settings["revisit_every"] is None


TestCurriculumMachine = CurriculumMachine.TestCase
TestCurriculumMachine.settings = settings(max_examples=60, stateful_step_count=20)


@settings(max_examples=50)
@given(st.integers(1, 4), st.lists(st.booleans(), min_size=30, max_size=30))
def test_at_most_one_failed_probe_every_n_epochs(n, busy):
    curriculum = after("FFFFF", revisit_every=n)
    probes = []
    for epoch, skipped in enumerate(busy):
        probed = "t" in curriculum.weights() and not skipped
        curriculum.update({"t": FAIL} if probed else {})
        if probed:
            probes.append(epoch)
    assert all(later - earlier >= n for earlier, later in zip(probes, probes[1:], strict=False))
    if not any(busy):
        assert len(probes) == 30 // n


@settings(max_examples=50)
@given(st.integers(1, 6), st.lists(st.dictionaries(st.sampled_from("ab"), st.sampled_from([FAIL, FAIL, SOLVED]))))
def test_epochs_that_pass_by_themselves_are_epochs_in_which_nothing_was_played(n, epochs):
    probing = FailureCurriculum(["a", "b"], patience=1, cooldown=1, revisit_every=n)
    told = FailureCurriculum(["a", "b"], patience=1, cooldown=1)
    for rewards in epochs:
        probing.update(rewards)
        told.update(rewards)
        passed = 0
        while not told.weights() and all(h["idle"] + 1 < n for h in told.state_dict()["tasks"].values()):
            told.update({})
            passed += 1
        assert passed < n
        assert probing.state_dict() == told.state_dict()
