"""Clock, Calendar, Tasks and Calculator: what the tests over all apps and templates do not see."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.phone.app import App
from envs.phone.apps.calculator import KEYS, CalculationError, Calculator, evaluate, press
from envs.phone.apps.calendar_app import Calendar
from envs.phone.apps.clock import CITY_HOURS, Clock, city_time, span_text
from envs.phone.apps.launcher import Launcher
from envs.phone.apps.pickers import time_order, time_text
from envs.phone.apps.todo import Todo
from envs.phone.phone import EPOCH, Phone
from envs.phone.tasks.rows import added, edited
from envs.phone.words import CITIES


def open_app(cls: type[App]) -> tuple[Phone, App]:
    phone = Phone((Launcher, cls))
    phone.launch(cls.package)
    return phone, phone.foreground


def names(phone: Phone) -> list[str]:
    return [n.text or n.desc for n in phone.tree().window.walk() if n.text or n.desc]


def tap(phone: Phone, name: str, nth: int = 0) -> None:
    found = [n for n in phone.tree().window.walk() if name in (n.text, n.desc)]
    left, top, right, bottom = found[nth].bounds
    phone.tap((left + right) / 2 * phone.scale, (top + bottom) / 2 * phone.scale)


# --- Calculator ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 + 3 × 4", "14"),  # × before +
        ("8 - 6 ÷ 4", "6.5"),  # 6 / 4 = 1.5
        ("9 - 2 - 3", "4"),  # from the left
        ("-5 + 3", "-2"),
        ("0.1 + 0.2", "0.3"),  # decimal, not binary
        ("50 × 2", "100"),  # no exponent
        ("1 ÷ 3", "0.3333333333"),  # ten digits
        ("5 - 5", "0"),
    ],
)
def test_evaluate(expression: str, value: str) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    ("expression", "message"), [("4 ÷ 0", "Cannot divide by zero"), ("4 + ", "Error"), ("", "Error")]
)
def test_evaluate_refuses(expression: str, message: str) -> None:
    with pytest.raises(CalculationError, match=message):
        evaluate(expression)


@given(st.lists(st.sampled_from([k for row in KEYS for k in row if k != "="]), max_size=40))
def test_any_keys_make_a_wellformed_expression(keys: list[str]) -> None:
    text = ""
    for key in keys:
        text = press(text, key)
    words = text.split(" ")
    assert all(w in "+-×÷" for w in words[1::2])
    for word in words[0::2]:
        assert word in ("", "-") or Decimal(word).is_finite()


def test_a_digit_after_a_result_starts_anew_and_an_operator_goes_on() -> None:
    phone, app = open_app(Calculator)
    app.db["history"] = []
    for key in ("7", "×", "8", "="):
        tap(phone, key, -1)
    assert app.page.args["text"] == "56"
    tap(phone, "+", -1)
    assert app.page.args["text"] == "56 + "
    for key in ("2", "=", "3"):
        tap(phone, key, -1)
    assert app.page.args["text"] == "3"
    rows = [(r["expression"], r["result"]) for r in app.db["history"]]
    assert rows == [("7 × 8", "56"), ("56 + 2", "58")]


def test_division_by_zero_is_said_and_not_remembered() -> None:
    phone, app = open_app(Calculator)
    before = list(app.db["history"])
    for key in ("4", "÷", "0", "="):
        tap(phone, key, -1)
    assert "Cannot divide by zero" in names(phone)
    assert app.db["history"] == before


# --- Clock -----------------------------------------------------------------------------------------------------


@given(st.integers(0, 23), st.integers(0, 59))
def test_time_text_and_order_are_inverse(hour: int, minute: int) -> None:
    assert time_order(time_text(hour, minute)) == (hour, minute)


def test_city_time_crosses_midnight() -> None:
    # The phone starts at 15:34; Tokyo is nine hours ahead, Lima five behind.
    assert city_time("Tokyo", EPOCH) == "0:34"
    assert city_time("Lima", EPOCH) == "10:34"


def test_every_city_of_the_vocabulary_has_a_time() -> None:
    assert sorted(CITY_HOURS) == sorted(CITIES)


def test_span_text() -> None:
    assert [span_text(s) for s in (-3, 65, 3600)] == ["0:00", "1:05", "1:00:00"]


def test_timer_counts_down_only_while_it_runs() -> None:
    phone, app = open_app(Clock)
    for name in ("Timer", "10 min", "Start"):
        tap(phone, name)
    for _ in range(4):
        phone.wait()
    # A second passes with every input: 4 waits.
    assert "9:56" in names(phone)
    tap(phone, "Pause")
    phone.wait()
    assert "9:55" in names(phone)
    tap(phone, "Start")
    phone.wait()
    assert "9:54" in names(phone)


def test_stopwatch_laps_and_reset() -> None:
    phone, app = open_app(Clock)
    for name in ("Stopwatch", "Start", "Lap", "Lap", "Pause"):
        tap(phone, name)
    # A lap is what the display showed when it was tapped.
    assert [r["seconds"] for r in app.db["laps"]] == [0, 1]
    tap(phone, "Reset")
    assert app.db["laps"] == []
    assert app.elapsed("stopwatch") == 0


def test_the_switch_of_an_alarm_does_not_open_it_and_the_row_does() -> None:
    phone, app = open_app(Clock)
    app.db["alarms"] = []
    alarm = app.insert("alarms", time="6:05")
    phone.changed()
    tap(phone, "Alarm 6:05")
    assert (alarm["enabled"], app.page.name) == (0, "main")
    tap(phone, "6:05")
    assert app.page.name == "alarm"
    for name in ("Time", "23", "55"):
        tap(phone, name)
    assert alarm["time"] == "23:55"


def test_back_in_the_time_dialog_sets_no_alarm() -> None:
    phone, app = open_app(Clock)
    before = len(app.db["alarms"])
    tap(phone, "Add alarm")
    tap(phone, "8")
    phone.back()
    assert len(app.db["alarms"]) == before
    tap(phone, "Add alarm")
    assert "Select minutes" not in names(phone)


# --- Calendar --------------------------------------------------------------------------------------------------


def test_month_view_is_the_calendar_of_october_2023() -> None:
    phone, app = open_app(Calendar)
    tap(phone, "Month")
    days = [n for n in phone.tree().window.walk() if n.text.isdigit()]
    assert [int(n.text) for n in days] == list(range(1, 32))
    left = {n.text: n.bounds[0] for n in days}
    # Weeks begin on Sunday, as the 1st, the 15th and the 29th are.
    assert left["1"] == left["15"] == left["29"] == min(left.values())
    assert left["7"] == max(left.values())


def test_months_turn_over_the_year() -> None:
    phone, app = open_app(Calendar)
    tap(phone, "Month")
    for _ in range(3):
        tap(phone, "Next month")
    assert app.page.args["month"] == "2024-01-01"
    tap(phone, "Previous month")
    assert app.page.args["month"] == "2023-12-01"


def test_an_event_added_from_a_day_is_on_that_day() -> None:
    phone, app = open_app(Calendar)
    for name in ("Month", "24", "Next day", "Add event"):
        tap(phone, name)
    phone.text("Concert")
    tap(phone, "Save")
    event = app.db["events"][-1]
    assert (event["title"], event["day"], event["time"]) == ("Concert", "2023-10-25", "9:00")
    assert "25 October" in names(phone) and "Concert" in names(phone)


def test_an_event_without_a_title_is_not_saved() -> None:
    phone, app = open_app(Calendar)
    before = list(app.db["events"])
    tap(phone, "Add event")
    tap(phone, "Save")
    assert app.db["events"] == before
    assert app.page.name == "edit"


# --- Tasks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("chosen", "shown"), [("All", "abc"), ("Open", "ac"), ("Done", "b"), ("High", "bc")])
def test_filters(chosen: str, shown: str) -> None:
    phone, app = open_app(Todo)
    app.db["tasks"] = []
    for title, done, priority in (("a", 0, "Low"), ("b", 1, "High"), ("c", 0, "High")):
        app.insert("tasks", title=title, done=done, priority=priority)
    phone.changed()
    tap(phone, "Filter")
    tap(phone, chosen)
    assert sorted(n for n in names(phone) if n in ("a", "b", "c")) == list(shown)


def test_leaving_a_task_without_save_changes_nothing() -> None:
    phone, app = open_app(Todo)
    before = [dict(r) for r in app.db["tasks"]]
    for name in (before[0]["title"], "Priority", "Low"):
        tap(phone, name)
    phone.back()
    while app.page.name != "main":
        phone.back()
    assert app.db["tasks"] == before


# --- comparing tables ------------------------------------------------------------------------------------------


def test_added_and_edited() -> None:
    before = [{"_id": 1, "v": "a"}, {"_id": 2, "v": "b"}]
    assert added(before, [*before, {"_id": 3, "v": "c"}]) == [{"v": "c"}]
    assert added(before, [{"_id": 1, "v": "a"}, {"_id": 3, "v": "c"}]) == []
    assert added(before, before) == []
    assert edited(before, 2, v="x") == [{"_id": 1, "v": "a"}, {"_id": 2, "v": "x"}]
