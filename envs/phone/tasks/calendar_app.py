"""Tasks of the Calendar app."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date
from typing import Any

from envs.base import Action
from envs.phone.phone import EPOCH
from envs.phone.tasks.base import Admin, Hand, Template, same_answer
from envs.phone.tasks.clock import pick_time
from envs.phone.tasks.rows import added, edited
from envs.phone.words import EVENT_TITLES

EVENTS = "calendar/events"
TASKS = "tasks/tasks"
TODAY = EPOCH.date()


def _october(day: int) -> str:
    return date(TODAY.year, TODAY.month, day).isoformat()


class _Events(Template):
    """No event of the given title exists, and the agenda fits on the screen."""

    app = "Calendar"
    others = 5

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        """Days later than the day on the phone, so that every event is ahead."""
        return {
            "title": rng.choice(EVENT_TITLES),
            "day": rng.randint(TODAY.day + 1, 31),
            "time": f"{rng.randint(7, 20)}:{rng.choice((0, 15, 30, 45)):02d}",
        }

    def setup(self, phone: Admin) -> None:
        kept = [r for r in phone.rows(EVENTS) if r["title"] != self.p["title"]][: self.others]
        for row in phone.rows(EVENTS):
            if row not in kept:
                phone.delete(EVENTS, row["_id"])
        self.before = kept


class _OneEvent(_Events):
    """One event of the given title exists, alone on its day, between others."""

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        for row in self.before:
            if row["day"] == _october(self.p["day"]):
                phone.delete(EVENTS, row["_id"])
        self.rest = phone.rows(EVENTS)
        phone.insert(EVENTS, title=self.p["title"], day=_october(self.p["day"]), time=self.p["time"])
        self.before = phone.rows(EVENTS)
        self.id = self.before[-1]["_id"]


class CalendarAddToday(_Events):
    instructions = ("Add {title} to the calendar today at {time}", "Create an event {title} for today at {time}")
    steps = 8

    def check(self, phone: Admin, answer: str) -> bool:
        wanted = {"title": self.p["title"], "day": TODAY.isoformat(), "time": self.p["time"]}
        return added(self.before, phone.rows(EVENTS)) == [wanted]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Calendar")
        yield ui.tap("Add event")
        yield ui.type(self.p["title"])
        yield from pick_time(ui, "Time", self.p["time"])
        yield ui.tap("Save")
        yield ui.finish()


class CalendarAdd(_Events):
    instructions = (
        "Add {title} to the calendar on {day} October at {time}",
        "Create an event {title} for {day} October at {time}",
    )
    steps = 10

    def check(self, phone: Admin, answer: str) -> bool:
        wanted = {"title": self.p["title"], "day": _october(self.p["day"]), "time": self.p["time"]}
        return added(self.before, phone.rows(EVENTS)) == [wanted]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Calendar")
        yield ui.tap("Add event")
        yield ui.type(self.p["title"])
        yield ui.tap("Date")
        yield ui.tap(str(self.p["day"]))
        yield from pick_time(ui, "Time", self.p["time"])
        yield ui.tap("Save")
        yield ui.finish()


class CalendarDelete(_OneEvent):
    instructions = ("Delete the event {title}", "Remove {title} from the calendar")
    steps = 5

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.rows(EVENTS) == self.rest

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Calendar")
        yield ui.tap(self.p["title"])
        yield ui.tap("Delete")
        yield ui.tap("Delete")
        yield ui.finish()


class CalendarMove(_OneEvent):
    """`new` is the day the event moves to."""

    instructions = ("Move the event {title} to {new} October", "Change the date of {title} to {new} October")
    steps = 7

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        params = super().sample(rng)
        days = [d for d in range(TODAY.day, 32) if d != params["day"]]
        return {**params, "new": rng.choice(days)}

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.rows(EVENTS) == edited(self.before, self.id, day=_october(self.p["new"]))

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Calendar")
        yield ui.tap(self.p["title"])
        yield ui.tap("Edit")
        yield ui.tap("Date")
        yield ui.tap(str(self.p["new"]))
        yield ui.tap("Save")
        yield ui.finish()


class CalendarTime(_OneEvent):
    instructions = ("At what time is {title} in the calendar?", "When does the event {title} begin?")
    steps = 2

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.p["time"])

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Calendar")
        yield ui.finish(self.p["time"])


class CalendarOnDay(_OneEvent):
    """The day is over, so the agenda no longer shows its event: it is found in the month."""

    instructions = ("Which event was on {day} October?", "What was in the calendar on {day} October?")
    steps = 4

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {**super().sample(rng), "day": rng.randint(1, TODAY.day - 1)}

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.p["title"])

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Calendar")
        yield ui.tap("Month")
        yield ui.tap(str(self.p["day"]))
        yield ui.finish(self.p["title"])


class CalendarToTasks(_OneEvent):
    """Two apps: what is read in one is written in the other."""

    split = "test"
    instructions = ("Add a task with the title of the event on {day} October",)
    steps = 6

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        self.tasks = phone.rows(TASKS)

    def check(self, phone: Admin, answer: str) -> bool:
        new = added(self.tasks, phone.rows(TASKS))
        return [r["title"] for r in new] == [self.p["title"]] and phone.rows(EVENTS) == self.before

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Calendar")
        yield ui.launch("Tasks")
        yield ui.tap("New task")
        yield ui.type(self.p["title"])
        yield ui.tap("Save")
        yield ui.finish()


TEMPLATES = (CalendarAddToday, CalendarAdd, CalendarDelete, CalendarMove, CalendarTime, CalendarOnDay,
             CalendarToTasks)  # fmt: skip
