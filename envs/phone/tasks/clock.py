"""Tasks of the Clock app."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from envs.base import Action
from envs.phone.apps.clock import PRESETS, city_time
from envs.phone.apps.pickers import time_text
from envs.phone.phone import EPOCH
from envs.phone.tasks.base import INFEASIBLE, Admin, Hand, Template, same_answer
from envs.phone.tasks.rows import added, edited
from envs.phone.words import ALARM_LABELS, CITIES

ALARMS = "clock/alarms"
CITY_ROWS = "clock/cities"
PREFS = "clock/prefs"


def _alarm(rng: random.Random) -> dict[str, Any]:
    time = time_text(rng.randrange(24), 5 * rng.randrange(12))
    return {"time": time, "label": rng.choice(ALARM_LABELS)}


class _Alarms(Template):
    """No alarm of the given time or label exists."""

    app = "Clock"

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return _alarm(rng)

    def setup(self, phone: Admin) -> None:
        for row in phone.rows(ALARMS):
            if row["time"] == self.p["time"] or row["label"] == self.p["label"]:
                phone.delete(ALARMS, row["_id"])
        self.before = phone.rows(ALARMS)


class _OneAlarm(_Alarms):
    """One alarm of the given time and label exists, between others."""

    enabled = 1

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        phone.insert(ALARMS, **self.p, enabled=self.enabled)
        self.others, self.before = self.before, phone.rows(ALARMS)
        self.id = self.before[-1]["_id"]


class ClockAlarmOn(_OneAlarm):
    instructions = ("Turn on the alarm at {time}", "Switch the {time} alarm on")
    steps = 3
    enabled = 0

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.rows(ALARMS) == edited(self.before, self.id, enabled=1)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Clock")
        yield ui.tap(f"Alarm {self.p['time']}")
        yield ui.finish()


class ClockAlarmOff(_OneAlarm):
    demo = False
    instructions = ("Turn off the {label} alarm", "Switch off the alarm labelled {label}")
    steps = 3

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.rows(ALARMS) == edited(self.before, self.id, enabled=0)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Clock")
        yield ui.tap(f"Alarm {self.p['time']}")
        yield ui.finish()


class ClockAlarmAdd(_Alarms):
    instructions = ("Add an alarm for {time}", "Set an alarm for {time} in Clock")
    steps = 5

    def check(self, phone: Admin, answer: str) -> bool:
        new = added(self.before, phone.rows(ALARMS))
        return [(r["time"], r["enabled"]) for r in new] == [(self.p["time"], 1)]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Clock")
        yield from pick_time(ui, "Add alarm", self.p["time"])
        yield ui.finish()


class ClockAlarmLabelled(_Alarms):
    instructions = ("Add an alarm for {time} with the label {label}", "Set an alarm labelled {label} for {time}")
    steps = 9

    def check(self, phone: Admin, answer: str) -> bool:
        new = added(self.before, phone.rows(ALARMS))
        return [(r["time"], r["label"], r["enabled"]) for r in new] == [(self.p["time"], self.p["label"], 1)]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Clock")
        yield from pick_time(ui, "Add alarm", self.p["time"])
        yield ui.tap(self.p["time"])
        yield ui.tap("Label")
        yield ui.type(self.p["label"])
        yield ui.tap("OK")
        yield ui.finish()


class ClockAlarmDelete(_OneAlarm):
    instructions = ("Delete the alarm at {time}", "Remove the {time} alarm from Clock")
    steps = 4

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.rows(ALARMS) == self.others

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Clock")
        yield ui.tap(self.p["time"])
        yield ui.tap("Delete")
        yield ui.finish()


class ClockAlarmWhen(_OneAlarm):
    instructions = ("At what time does the {label} alarm ring?", "What time is the alarm {label} set for?")
    steps = 2

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.p["time"])

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Clock")
        yield ui.finish(self.p["time"])


class ClockAlarmMissing(_Alarms):
    """There is no such alarm: the right answer is that it cannot be done."""

    instructions = ("Turn off the {time} alarm labelled {label}",)
    steps = 2
    feasible = False

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, INFEASIBLE) and phone.rows(ALARMS) == self.before

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Clock")
        yield ui.finish(INFEASIBLE)


class ClockTimerStart(Template):
    """Some lengths are a preset, others need up to three taps on `+1 min` after it."""

    app = "Clock"
    instructions = ("Start a timer for {minutes} minutes", "Set the timer to {minutes} minutes and start it")
    steps = 8

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"minutes": rng.choice(PRESETS[1:]) + rng.choice((0, 1, 2, 3))}

    def check(self, phone: Admin, answer: str) -> bool:
        [prefs] = phone.rows(PREFS)
        return prefs["timer_running"] == 1 and prefs["timer_total"] == 60 * self.p["minutes"]

    def expert(self, ui: Hand) -> Iterator[Action]:
        preset = max(m for m in PRESETS if m <= self.p["minutes"])
        yield ui.launch("Clock")
        yield ui.tap("Timer")
        yield ui.tap(f"{preset} min")
        for _ in range(self.p["minutes"] - preset):
            yield ui.tap("+1 min")
        yield ui.tap("Start")
        yield ui.finish()


class ClockCityTime(Template):
    """The world clock shows the city and two `others`."""

    app = "Clock"
    split = "test"
    instructions = ("What time is it in {city}?", "Which time does the world clock show for {city}?")
    steps = 3

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        city, *others = rng.sample(CITIES, 3)
        return {"city": city, "others": others}

    def setup(self, phone: Admin) -> None:
        phone.delete(CITY_ROWS)
        for name in (self.p["city"], *self.p["others"]):
            phone.insert(CITY_ROWS, name=name)

    def check(self, phone: Admin, answer: str) -> bool:
        # An episode is shorter than the minute the phone's clock starts with.
        return same_answer(answer, city_time(self.p["city"], EPOCH))

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Clock")
        yield ui.tap("World")
        yield ui.finish(city_time(self.p["city"], EPOCH))


def pick_time(ui: Hand, opener: str, time: str) -> Iterator[Action]:
    """Opens the time dialog with the widget `opener` and picks `time` in it."""
    hour, minute = time.split(":")
    yield ui.tap(opener)
    yield ui.tap(hour)
    yield ui.tap(minute)


TEMPLATES = (ClockAlarmOn, ClockAlarmOff, ClockAlarmAdd, ClockAlarmLabelled, ClockAlarmDelete, ClockAlarmWhen,
             ClockAlarmMissing, ClockTimerStart, ClockCityTime)  # fmt: skip
