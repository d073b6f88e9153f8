"""AndroidWorld's facts, seeds, names, and the guard between training and testing."""

from __future__ import annotations

from collections import Counter

import pytest

from mobilerl.envs.androidworld.tasks import (
    ANSWER_TASKS,
    EVAL_SEED,
    FACTS,
    SENTINELS,
    check_training_seed,
    resolve,
    trainable,
)


def test_the_bundled_table_is_the_documented_one():
    assert len(FACTS) == 116 and sum(f.budget for f in FACTS.values()) == 2349
    budgets = Counter(f.budget for f in FACTS.values())
    assert (budgets[10], budgets[12], budgets[20], budgets[34], budgets[60]) == (48, 15, 12, 8, 7)
    assert FACTS["OsmAndTrack"].budget == 120 == max(budgets)
    assert Counter(f.difficulty for f in FACTS.values()) == {"easy": 61, "medium": 36, "hard": 19}
    prefixes = ("Notes", "SimpleCalendar", "SportsTracker", "Tasks")
    assert [sum(n.startswith(p) for n in ANSWER_TASKS) for p in prefixes] == [4, 9, 6, 6]
    assert set(SENTINELS) <= FACTS.keys() and not ANSWER_TASKS & set(SENTINELS)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("markor app", "Markor"),
        ("Calendar", "Simple Calendar Pro"),
        ("simple-sms-messenger", "Simple SMS Messenger"),
        ("Tasks.org", "Tasks"),
        ("OSMAnd", "OsmAnd"),
        ("Phone", "Dialer"),
        ("app", None),
        ("$(reboot)", None),
    ],
)
def test_names_people_use(name, label):
    assert resolve(name) == label


def test_what_is_trained_on():
    with pytest.raises(ValueError, match="seed 30 is reserved for testing"):
        check_training_seed(EVAL_SEED)
    # The folder's name is the clock of the server; the reward of the other is free by design.
    assert trainable(["NotesIsTodo", "MarkorCreateFolder", "SystemWifiTurnOnVerify"]) == ["NotesIsTodo"]
    assert len(trainable()) == 109 and len(trainable(free_reward=True)) == 115
