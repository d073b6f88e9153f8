import json
import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobilerl.algorithms.curriculum import InstructionValueCurriculum
from mobilerl.algorithms.shares import share_of


@pytest.mark.parametrize(
    ("n", "top_p", "wanted"), [(4, 0.5, 2), (5, 0.5, 3), (25, 0.28, 7), (100, 0.55, 55), (3, 0.01, 1), (7, 1.0, 7)]
)
def test_a_share_is_rounded_up_but_for_errors_of_the_product(n, top_p, wanted):
    assert share_of(n, top_p) == wanted


def valued(values, top_p, **settings_):
    curriculum = InstructionValueCurriculum(values, top_p, **settings_)
    curriculum.update({}, values)
    return curriculum


VALUES = {"solved": 0.9, "half": 0.5, "hard": 0.1, "hopeless": 0.0}
"""Scores v (1 - v): 0.09, 0.25, 0.09, 0."""


def test_weights_golden():
    # A quarter of four tasks is one. Half is two: the second-largest score is 0.09, which two tasks have.
    assert valued(VALUES, top_p=0.25).weights() == {"solved": 0.1, "half": 1.0, "hard": 0.1, "hopeless": 0.1}
    assert valued(VALUES, top_p=0.5, rest=0.2).weights() == {"solved": 1, "half": 1, "hard": 1, "hopeless": 0.2}
    assert set(valued(VALUES, top_p=1.0).weights().values()) == {1.0}
    curriculum = valued(VALUES, top_p=0.25)
    assert (curriculum.active, curriculum.removed) == ({"half"}, frozenset())
    assert curriculum.cooling == {"solved", "hard", "hopeless"}
    assert curriculum.counts() == {"active": 1, "cooling": 3, "removed": 0}


def test_running_mean_of_rewards_golden():
    # 0.5 + 0.3 (1 - 0.5) = 0.65; 0.65 + 0.3 (0.25 - 0.65) = 0.53. Not sampled, or only infra errors: as it was.
    curriculum = InstructionValueCurriculum(["a", "b"], 0.5)
    curriculum.update({"a": [1.0, 1.0]})
    assert curriculum.state_dict()["values"] == pytest.approx({"a": 0.65, "b": 0.5})
    curriculum.update({"a": [0.0, 1.0, 0.0, 0.0], "b": []})
    assert curriculum.state_dict()["values"] == pytest.approx({"a": 0.53, "b": 0.5})


def test_values_of_the_value_function_take_the_place_of_the_running_mean():
    curriculum = InstructionValueCurriculum(["a", "b"], 0.5)
    curriculum.update({"a": [1.0], "b": [1.0]}, values={"a": 0.2})
    assert curriculum.state_dict()["values"] == pytest.approx({"a": 0.2, "b": 0.65})


def test_preference_moves_on_once_a_task_is_solved():
    curriculum = InstructionValueCurriculum(["easy", "next"], top_p=0.5)
    assert curriculum.active == {"easy", "next"}  # nothing is known: both have their turn
    for _ in range(3):
        curriculum.update({"easy": [1.0], "next": [0.0, 1.0]})
    assert curriculum.active == {"next"}
    for _ in range(12):  # and when the policy forgets, the task comes back: its few rollouts tell
        curriculum.update({"easy": [0.0, 1.0], "next": [1.0]})
    assert curriculum.active == {"easy"}


def test_sampled_shares_follow_the_weights():
    curriculum = valued(VALUES, top_p=0.25)  # weights 1 and three times 0.1
    rng = random.Random(0)
    counts = Counter(task for _ in range(4000) for task in curriculum.sample(1, rng))
    assert [counts[t] / 4000 for t in VALUES] == pytest.approx([0.1 / 1.3, 1 / 1.3, 0.1 / 1.3, 0.1 / 1.3], abs=0.03)
    assert curriculum.sample(7, random.Random(1)) == curriculum.sample(7, random.Random(1))
    assert len(curriculum.sample(7, rng)) == 7


def test_state_carries_over_to_a_run_with_other_tasks():
    state = json.loads(json.dumps(valued(VALUES, 0.5).state_dict()))
    twin = InstructionValueCurriculum(VALUES, 0.5)
    twin.load_state_dict(state)
    assert twin.weights() == valued(VALUES, 0.5).weights()
    later = InstructionValueCurriculum(["new", "hard"], 0.5)
    later.load_state_dict(state)
    assert later.state_dict() == {"values": {"new": 0.5, "hard": 0.1}}


def test_bad_input_is_named_and_changes_nothing():
    for arguments, message in [
        ({"task_ids": [], "top_p": 0.5}, "no tasks"),
        ({"task_ids": ["a", "a"], "top_p": 0.5}, "'a' is listed twice"),
        ({"task_ids": ["a"], "top_p": 0.0}, "top_p"),
        ({"task_ids": ["a"], "top_p": 0.5, "rest": 0.0}, "rest"),
        ({"task_ids": ["a"], "top_p": 0.5, "rate": 2.0}, "rate"),
    ]:
        with pytest.raises(ValueError, match=message):
            InstructionValueCurriculum(**arguments)
    curriculum = valued(VALUES, 0.5)
    before = curriculum.state_dict()
    for rewards, values, message in [
        ({"half": [1.0], "x": [1.0]}, None, "unknown task 'x'"),
        ({"half": [1.0]}, {"x": 0.5}, "unknown task 'x'"),
        ({"half": [1.0]}, {"hard": math.nan}, "'hard' has a reward or value outside"),
        ({"half": [1.0], "hard": [-0.5]}, None, "'hard' has a reward or value outside"),
    ]:
        with pytest.raises(ValueError, match=message):
            curriculum.update(rewards, values)
    for state in ({}, {"values": 3}, {"values": {"half": "much"}}):
        with pytest.raises(ValueError, match="not one of InstructionValueCurriculum"):
            curriculum.load_state_dict(state)
    assert curriculum.state_dict() == before


@settings(max_examples=100)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=15), st.floats(0.01, 1))
def test_the_preferred_share_holds_the_best_scores(values, top_p):
    tasks = {f"t{i}": v for i, v in enumerate(values)}
    curriculum = valued(tasks, top_p)
    active = curriculum.active
    assert len(active) >= max(1, math.floor(top_p * len(tasks)))
    assert set(curriculum.weights()) == set(tasks)
    assert sum(curriculum.counts().values()) == len(tasks)
    scores = {t: v * (1 - v) for t, v in tasks.items()}
    best_left = max((scores[t] for t in curriculum.cooling), default=0.0)
    assert min(scores[t] for t in active) >= best_left - 1e-9
