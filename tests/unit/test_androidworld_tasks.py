"""AndroidWorld's facts, seeds, names, and the guard between training and testing."""

from __future__ import annotations

from collections import Counter

import pytest

from envs.androidworld.access import scroll_direction
from envs.androidworld.apps import ALIASES, APPS, resolve
from envs.androidworld.tasks import (
    ANSWER_TASKS,
    EVAL_SEED,
    FACTS,
    SENTINELS,
    budgets_hash,
    check_names,
    check_no_leak,
    describe_difference,
    instance_seed,
    make_task,
    training_tasks,
)
from envs.base import Swipe


def test_the_bundled_table_is_the_documented_one():
    assert len(FACTS) == 116 and sum(f.budget for f in FACTS.values()) == 2349
    budgets = Counter(f.budget for f in FACTS.values())
    assert (budgets[10], budgets[12], budgets[20], budgets[34], budgets[60]) == (48, 15, 12, 8, 7)
    assert FACTS["OsmAndTrack"].budget == 120 == max(budgets)
    assert Counter(f.difficulty for f in FACTS.values()) == {"easy": 61, "medium": 36, "hard": 19}
    prefixes = ("Notes", "SimpleCalendar", "SportsTracker", "Tasks")
    assert [sum(n.startswith(p) for n in ANSWER_TASKS) for p in prefixes] == [4, 9, 6, 6]
    assert set(SENTINELS) <= FACTS.keys() and not ANSWER_TASKS & set(SENTINELS)


def test_every_app_of_the_table_has_a_package():
    assert all(resolve(app) for facts in FACTS.values() for app in facts.apps)
    assert set(ALIASES.values()) <= APPS.keys() and len(set(APPS.values())) == len(APPS)


@pytest.mark.parametrize(("name", "label"), [
    ("Markor", "Markor"), ("markor app", "Markor"), ("Simple Calendar Pro", "Simple Calendar Pro"),
    ("Calendar", "Simple Calendar Pro"), ("Broccoli app", "Broccoli"), ("simple-sms-messenger", "Simple SMS Messenger"),
    ("Tasks.org", "Tasks"), ("OSMAnd", "OsmAnd"), ("Pro Expense app", "Pro Expense"), ("Phone", "Dialer"),
    ("", None), ("app", None), ("$(reboot)", None), ("WhatsApp", None),
])  # fmt: skip
def test_names_people_use(name, label):
    assert resolve(name) == label


def test_a_label_wins_over_an_alias():
    assert resolve("calendar", {"Calendar": "a", "Simple Calendar Pro": "b"}) == "Calendar"


def test_instance_seeds_are_androidworlds():
    # int(hashlib.sha256(b"30_ContactsAddContact_0").hexdigest(), 16) % 2**32
    assert instance_seed(30, "ContactsAddContact", 0) == 1155463587
    assert len({instance_seed(s, n, i) for s in (30, 31) for n in FACTS for i in range(3)}) == 2 * 116 * 3


def test_budgets_and_caps():
    assert make_task("OsmAndTrack", 0, "", 30, 1).max_steps == 120
    assert make_task("OsmAndTrack", 0, "", 30, 1, step_cap=50).max_steps == 50
    assert make_task("NotesIsTodo", 0, "", 30, 1, step_cap=50).max_steps == 10
    assert budgets_hash() == budgets_hash(reversed(list(FACTS))) != budgets_hash(["NotesIsTodo"])


def test_names_are_checked():
    check_names(["NotesIsTodo"])
    with pytest.raises(ValueError, match="no AndroidWorld task is called 'NotesTodo'"):
        check_names(["NotesTodo"])


def test_differences_are_named():
    assert describe_difference(list(FACTS)) == ""
    assert describe_difference([*FACTS, "New"]) == "has New"
    assert describe_difference(sorted(FACTS)[6:]).endswith("and 1 more")


GOALS = {(name, i): f"{name} {i}" for name in ("NotesIsTodo", "MarkorCreateFolder") for i in range(3)}


def test_training_never_uses_an_evaluations_seed():
    with pytest.raises(ValueError, match="seed 30 is reserved for testing"):
        training_tasks(GOALS, EVAL_SEED, 3)
    tasks = training_tasks(GOALS, 1000, 3)
    # The folder's name is the clock of whichever server plays it.
    assert [t.id for t in tasks] == [f"androidworld/NotesIsTodo/1000/{i}" for i in range(3)]
    assert {t.params["combinations"] for t in tasks} == {3} and len({t.id for t in tasks}) == 3
    check_no_leak(tasks, [make_task("NotesIsTodo", 0, "", 30, 1)])
    with pytest.raises(ValueError, match="leak: seed 1000 of test task"):
        check_no_leak(tasks, [make_task("NotesIsTodo", 7, "", 1000, 8)])


@pytest.mark.parametrize(("swipe", "direction"), [
    (Swipe(500, 700, 500, 300), "down"), (Swipe(500, 300, 510, 700), "up"),
    (Swipe(900, 500, 100, 510), "right"), (Swipe(100, 500, 900, 500), "left"), (Swipe(5, 5, 5, 5), "up"),
])  # fmt: skip
def test_a_scroll_is_named_by_what_comes_into_view(swipe, direction):
    assert scroll_direction(swipe) == direction
