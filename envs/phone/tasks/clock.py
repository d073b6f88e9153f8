"""Tasks of the Clock app."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from mobilerl.envs.base import Action
from mobilerl.envs.phone.apps.clock import PRESETS, city_time
from mobilerl.envs.phone.apps.pickers import time_text
from mobilerl.envs.phone.system import EPOCH
from mobilerl.envs.phone.tasks.base import INFEASIBLE, Admin, Row, RowTemplate, Step, Template, Type
from mobilerl.envs.phone.tasks.helpers import adds, deletes, edits, repeat, unchanged
from mobilerl.envs.phone.tasks.ui import UI
from mobilerl.envs.phone.words import ALARM_LABELS, CITIES

CITY_ROWS = "clock/cities"


def pick_time(opener: str) -> Step:
    """Opens the time dialog with the widget `opener` and picks the task's `time` in it."""

    def step(ui: UI, p: Row) -> Iterator[Action]:
        hour, minute = p["time"].split(":")
        for name in (opener, hour, minute):
            yield from ui.press(name)

    return step


class _Alarms(RowTemplate):
    """No alarm of the given time or label exists."""

    app = "Clock"
    table = "clock/alarms"
    unique = ("time", "label")
    params = {"time": lambda rng: time_text(rng.randrange(24), 5 * rng.randrange(12)), "label": ALARM_LABELS}


class _OneAlarm(_Alarms):
    """One alarm of the given time and label exists, between others."""

    new_row = {"time": "{time}", "label": "{label}", "enabled": 1}


class ClockAlarmOn(_OneAlarm):
    instructions = (
        "[Turn|Switch] on the [alarm at {time}|{time} alarm]",
        "[Turn|Switch] the {time} alarm on",
        "The alarm at {time} [is off, turn it on|should be on|should ring]",
        "In Clock [turn|switch] on the alarm for {time}",
    )
    new_row = {**_OneAlarm.new_row, "enabled": 0}
    script = ("Alarm {time}",)
    done = edits(enabled=1)


class ClockAlarmOff(_OneAlarm):
    demo = False
    instructions = (
        "[Turn|Switch] off the {label} alarm",
        "[Turn|Switch] off the alarm [labelled|named|called] {label}",
        "The {label} alarm should [be off|not ring]",
        "In Clock [turn|switch] the {label} alarm off",
    )
    script = ("Alarm {time}",)
    done = edits(enabled=0)


class ClockAlarmAdd(_Alarms):
    instructions = (
        "[Add|Create|Make] [an|a new] alarm for {time}",
        "Set an alarm for {time}[ in Clock|]",
        "I [need|want] [an|a new] alarm at {time}",
    )
    script = (pick_time("Add alarm"),)
    steps = 5
    done = adds(time="{time}", enabled=1)


class ClockAlarmLabelled(_Alarms):
    instructions = (
        "[Add|Create|Set] an alarm [for|at] {time} with the label {label}",
        "[Set|Add|Create] an alarm labelled {label} [for|at] {time}",
        "I need an alarm at {time}, label it {label}",
    )
    script = (pick_time("Add alarm"), "{time}", "Label", Type("{label}"), "OK")
    steps = 9
    done = adds(time="{time}", label="{label}", enabled=1)


class ClockAlarmDelete(_OneAlarm):
    instructions = (
        "[Delete|Remove|Erase] the alarm at {time}",
        "[Remove|Delete] the {time} alarm[ from Clock|]",
        "Get rid of the {time} alarm",
        "I do not need the alarm at {time} [any more|any longer], delete it",
        "In Clock delete the alarm for {time}",
    )
    script = ("{time}", "Delete")
    done = deletes


class ClockAlarmWhen(_OneAlarm):
    instructions = (
        "[At what time|When] does the {label} alarm ring?",
        "[What|Which] time is the [alarm {label}|{label} alarm] set for?",
        "For [what|which] time is the {label} alarm set?",
        "[Tell me|Look up] the time of the {label} alarm[ in Clock|]",
    )
    script = ()
    answer = "{time}"


class ClockAlarmMissing(_Alarms):
    """There is no such alarm: the right answer is that it cannot be done."""

    instructions = (
        "[Turn|Switch] off the {time} alarm [labelled|named|called] {label}",
        "[Turn|Switch] the alarm {label} at {time} off",
        "The alarm {label} at {time} should [be off|not ring]",
        "In Clock turn off the alarm for {time} with the label {label}",
    )
    script = ()
    answer = INFEASIBLE
    done = unchanged


class ClockTimerStart(Template):
    """Some lengths are a preset, others need up to three taps on `+1 min` after it."""

    app = "Clock"
    instructions = (
        "Start a [timer for {minutes} minutes|{minutes} minute timer][| in Clock]",
        "Set [the|a] timer to {minutes} minutes and start it",
        "Start the timer [with|at] {minutes} minutes",
        "I need a timer for {minutes} minutes, start [it|one]",
        "Time {minutes} minutes with [the|a] timer",
    )
    params = {"minutes": lambda rng: rng.choice(PRESETS[1:]) + rng.choice((0, 1, 2, 3))}
    script = ("Timer", "{preset} min", repeat("+1 min", lambda p: p["minutes"] - p["preset"]), "Start")
    steps = 8

    def setup(self, phone: Admin) -> None:
        self.p["preset"] = max(m for m in PRESETS if m <= self.p["minutes"])

    def done(self, phone: Admin) -> bool:
        return all(self.conditions(phone, ""))

    def conditions(self, phone: Admin, answer: str) -> list[bool]:
        [prefs] = phone.rows("clock/prefs")
        set_up = prefs["timer_total"] == 60 * self.p["minutes"]
        return [set_up, set_up and prefs["timer_running"] == 1]


class ClockCityTime(Template):
    """The world clock shows the city and two `others`."""

    app = "Clock"
    split = "dev"
    instructions = (
        "[What|Which] time is it [|now ]in {city}?",
        "[What|Which] time does the world clock show for {city}?",
        "[Tell me|Look up] the time in {city}[ now|]",
        "In Clock, what time is it in {city}?",
    )
    script = ("World",)
    answer = "{time}"

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        city, *others = rng.sample(CITIES, 3)
        return {"city": city, "others": others}

    def setup(self, phone: Admin) -> None:
        # An episode is shorter than the minute the phone's clock starts with.
        self.p["time"] = city_time(self.p["city"], EPOCH)
        phone.delete(CITY_ROWS)
        for name in (self.p["city"], *self.p["others"]):
            phone.insert(CITY_ROWS, name=name)
