"""Clock: alarms, the time in other cities, a timer and a stopwatch, each behind its tab."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from functools import partial

from mobilerl.envs.phone.app import App, Page, Row
from mobilerl.envs.phone.apps.pickers import time_dialog, time_order, time_text
from mobilerl.envs.phone.panes import ListDetail
from mobilerl.envs.phone.ui import Dialog, Node, Screen
from mobilerl.envs.phone.widgets import (
    button,
    fab,
    flip,
    grid,
    icon_button,
    item,
    label,
    mark,
    spacer,
    switch_item,
    tabs,
    text_button,
)
from mobilerl.envs.phone.words import ALARM_LABELS, CITIES

CITY_HOURS = dict(zip(CITIES, (3, 2, 3, 4, -5, 1, 2, 3, 2, 2, 2, 8, 11, 9, -4, 2), strict=True))
"""Hours ahead of the phone's clock, which shows UTC."""
PRESETS = (1, 2, 5, 10, 15, 20, 30, 45, 60)
"""Minutes a timer can be set to with one tap."""
TAB_PAGES = {"Alarm": "main", "World": "world", "Timer": "timer", "Stopwatch": "stopwatch"}
TAB_ICONS = ("alarm", "globe", "timer", "stopwatch")


def city_time(city: str, now: datetime) -> str:
    """The time in `city` when the phone's clock shows `now`."""
    there = now + timedelta(hours=CITY_HOURS[city])
    return time_text(there.hour, there.minute)


def span_text(seconds: int) -> str:
    """`4:05`, or `1:00:00` from an hour on."""
    minutes, rest = divmod(max(0, seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


class Clock(App):
    """The timer counts `timer_total` seconds down. Timer and stopwatch keep the seconds they ran before `_since` (an
    input count: a second passes with every input) in `_elapsed`."""

    package = "com.android.deskclock"
    label = "Clock"
    authority = "clock"
    icon = "clock"
    color = "#3F51B5"
    tables = {
        "alarms": {"time": "7:00", "label": "", "enabled": 1, "vibrate": 0, "daily": 0},
        "cities": {"name": ""},
        "laps": {"seconds": 0},
    }
    list_detail = ListDetail(("main",), ("alarm",), "Select an alarm")
    default_prefs = {
        "timer_total": 300,
        **{f"{what}_{key}": 0 for what in ("timer", "stopwatch") for key in ("running", "elapsed", "since")},
    }

    def populate(self, rng: random.Random) -> None:
        for hour, name in zip(rng.sample(range(5, 22), 3), rng.sample(ALARM_LABELS, 3), strict=True):
            self.insert("alarms", time=time_text(hour, 5 * rng.randrange(12)), label=name, enabled=rng.randint(0, 1))
        for city in rng.sample(sorted(CITY_HOURS), 3):
            self.insert("cities", name=city)

    def _tabs(self, selected: str) -> Node:
        names, handlers = list(TAB_PAGES), [partial(self.replace, page) for page in TAB_PAGES.values()]
        return tabs([self.t(name) for name in names], names.index(selected), handlers, TAB_ICONS)

    def page_main(self, page: Page) -> Screen:
        alarms = sorted(self.db["alarms"], key=lambda r: (time_order(r["time"]), r["_id"]))
        body = [self._alarm_row(a) for a in alarms] or [label(self.t("No alarms"))]
        add = fab("plus", self.t("Add alarm"), lambda: self.open_dialog("time"))
        return Screen(self.t("Alarm"), body, fab=add, bottom=self._tabs("Alarm"))

    def _alarm_row(self, alarm: Row) -> Node:
        flipped = flip(alarm, "enabled")
        name = self.t("Alarm {time}", time=alarm["time"])
        switch = mark("Switch", bool(alarm["enabled"]), (48, 28), name, flipped)
        row = item(
            alarm["time"],
            alarm["label"],
            on_tap=lambda: self.go("alarm", id=alarm["_id"]),
            trailing=[switch],
            selected=self.shown_beside(id=alarm["_id"]),
        )
        time = row.children[0].children[0]
        time.size, time.height, row.height = 30, 40, 84
        return row

    def page_alarm(self, page: Page) -> Screen:
        alarm = self.get("alarms", page.args["id"])
        if alarm is None:
            return self.missing(self.t("Alarm"), self.t("This alarm was deleted"))
        name = alarm["label"]
        body = [
            switch_item(self.t("On"), bool(alarm["enabled"]), flip(alarm, "enabled")),
            item(self.t("Time"), alarm["time"], on_tap=lambda: self.open_dialog("time")),
            item(self.t("Label"), name or self.t("No label"), on_tap=lambda: self.ask("label", "label", name)),
            switch_item(self.t("Repeat daily"), bool(alarm["daily"]), flip(alarm, "daily")),
            switch_item(self.t("Vibrate"), bool(alarm["vibrate"]), flip(alarm, "vibrate")),
        ]
        delete = icon_button("trash", self.t("Delete"), partial(self.delete, "alarms", alarm["_id"], "Alarm"))
        return Screen(self.t("Alarm {time}", time=alarm["time"]), body, [delete], on_up=self.up)

    def dialog_time(self, page: Page) -> Dialog:
        return time_dialog(self, lambda time: self._set_time(page, time))

    def dialog_label(self, page: Page) -> Dialog:
        return self.text_dialog(self.t("Label"), "label", self.t("Label"), self.t("OK"))

    def submit(self, page: Page, key: str) -> None:
        """Sets the label in the dialog."""
        alarm = self.get("alarms", page.args["id"])
        if alarm is not None:
            alarm["label"] = page.fields["label"].strip()
        self.close_dialog()

    def _set_time(self, page: Page, time: str) -> None:
        alarm = self.get("alarms", page.args.get("id", 0))
        if alarm is None:
            self.insert("alarms", time=time)
        else:
            alarm["time"] = time
        self.toast(self.t("Alarm set for {time}", time=time))

    def page_world(self, page: Page) -> Screen:
        now = self.phone.now
        body = [label(time_text(now.hour, now.minute), size=44, align="center")]
        for city in sorted(self.db["cities"], key=lambda r: r["name"]):
            name = self.t("Remove {name}", name=city["name"])
            remove = icon_button("close", name, partial(self.remove, "cities", city["_id"]))
            time = label(city_time(city["name"], now), size=24, align="right")
            time.width = 104
            body.append(item(city["name"], trailing=[time, remove]))
        add = fab("plus", self.t("Add city"), lambda: self.go("add_city"))
        return Screen(self.t("World"), body, fab=add, bottom=self._tabs("World"))

    def page_add_city(self, page: Page) -> Screen:
        shown = {r["name"] for r in self.db["cities"]}
        body = [item(c, on_tap=partial(self._add_city, c)) for c in sorted(CITY_HOURS) if c not in shown]
        return Screen(self.t("Add city"), body, on_up=self.up)

    def _add_city(self, name: str) -> None:
        self.insert("cities", name=name)
        self.up()

    def page_timer(self, page: Page) -> Screen:
        running = self.prefs["timer_running"]
        left = self.prefs["timer_total"] - self.count_elapsed("timer")
        presets = grid(
            [text_button(self.t("{minutes} min", minutes=m), partial(self._set_timer, 60 * m)) for m in PRESETS], 3
        )
        buttons = [
            button(self.t("Pause" if running else "Start"), partial(self._run, "timer", not running)),
            button(self.t("+1 min"), self._add_minute, filled=False),
            button(self.t("Reset"), partial(self._set_timer, self.prefs["timer_total"]), filled=False),
        ]
        face = _clock_face(left)
        body = [*face, *presets, *grid(buttons, 3)]
        return Screen(self.t("Timer"), body, bottom=self._tabs("Timer"), lead=len(face))

    def page_stopwatch(self, page: Page) -> Screen:
        running, elapsed = self.prefs["stopwatch_running"], self.count_elapsed("stopwatch")
        second = button(self.t("Lap"), lambda: self.insert("laps", seconds=elapsed), filled=False)
        if not running:
            second = button(self.t("Reset"), self._reset_stopwatch, filled=False)
        first = button(self.t("Pause" if running else "Start"), partial(self._run, "stopwatch", not running))
        laps = [
            item(self.t("Lap {number}", number=i), span_text(lap["seconds"]))
            for i, lap in enumerate(self.db["laps"], 1)
        ]
        face = _clock_face(elapsed)
        body = [*face, *grid([first, second], 2), *reversed(laps)]
        return Screen(self.t("Stopwatch"), body, bottom=self._tabs("Stopwatch"), lead=len(face))

    def count_elapsed(self, what: str) -> int:
        """Seconds the `timer` or the `stopwatch` has run."""
        now = self.phone.inputs if self.prefs[f"{what}_running"] else self.prefs[f"{what}_since"]
        return self.prefs[f"{what}_elapsed"] + now - self.prefs[f"{what}_since"]

    def _run(self, what: str, on: bool) -> None:
        values = {"elapsed": self.count_elapsed(what), "since": self.phone.inputs, "running": int(on)}
        self.prefs.update({f"{what}_{key}": value for key, value in values.items()})

    def _add_minute(self) -> None:
        self.prefs["timer_total"] += 60

    def _set_timer(self, seconds: int) -> None:
        self.prefs.update(timer_total=seconds, timer_running=0, timer_elapsed=0, timer_since=0)

    def _reset_stopwatch(self) -> None:
        self.prefs.update(stopwatch_elapsed=0, stopwatch_since=0)
        self.db["laps"] = []


def _clock_face(seconds: int) -> list[Node]:
    return [spacer(24), label(span_text(seconds), size=56, align="center"), spacer(24)]
