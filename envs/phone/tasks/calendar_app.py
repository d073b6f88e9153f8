"""Tasks of the Calendar app."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mobilerl.envs.base import Launch
from mobilerl.envs.phone.system import EPOCH
from mobilerl.envs.phone.tasks.base import Admin, RowTemplate, Type
from mobilerl.envs.phone.tasks.clock import pick_time
from mobilerl.envs.phone.tasks.helpers import adds, deletes, edits, find_added
from mobilerl.envs.phone.words import EVENT_TITLES

TASKS = "tasks/tasks"
TODAY = EPOCH.date()


class _Events(RowTemplate):
    """No event of the given title exists, and the agenda fits on the screen. `date` is the ISO date of `day`."""

    app = "Calendar"
    table = "calendar/events"
    others = 5
    params = {
        "title": EVENT_TITLES,
        "day": range(TODAY.day + 1, 32),  # after the day on the phone: every event is ahead
        "time": lambda rng: f"{rng.randint(7, 20)}:{rng.choice((0, 15, 30, 45)):02d}",
    }

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.p["date"] = TODAY.replace(day=self.p["day"]).isoformat()

    def clear(self, phone: Admin) -> None:
        kept = [r for r in phone.rows(self.table) if r["title"] != self.p["title"]][: self.others]
        phone.delete_where(self.table, lambda row: row not in kept)


class _OneEvent(_Events):
    """One event of the given title exists, alone on its day, between others."""

    new_row = {"title": "{title}", "day": "{date}", "time": "{time}"}

    def clear(self, phone: Admin) -> None:
        super().clear(phone)
        phone.delete_where(self.table, lambda row: row["day"] == self.p["date"])


class CalendarAddToday(_Events):
    instructions = (
        "Add {title} to [the|my] calendar [for today|today] at {time}",
        "[Create|Add] an event {title} for today at {time}",
        "[Put|Save] {title} in [the|my] calendar for today at {time}",
        "Today at {time} I have {title}, add it to [the|my] calendar",
        "New event [for today |]in Calendar: {title}, today at {time}",
    )
    script = ("Add event", Type("{title}"), pick_time("Time"), "Save")
    steps = 8
    done = adds(title="{title}", day=TODAY.isoformat(), time="{time}")


class CalendarAdd(_Events):
    instructions = (
        "Add {title} to [the|my] calendar [on|for] {day} October at {time}",
        "[Create|Add] an event {title} [for|on] {day} October at {time}",
        "[Put|Save] {title} in [the|my] calendar for {day} October at {time}",
        "On {day} October at {time} I have {title}, add it to [the|my] calendar",
        "New event in Calendar: {title}, {day} October, {time}",
    )
    script = ("Add event", Type("{title}"), "Date", "{day}", pick_time("Time"), "Save")
    steps = 10
    done = adds(title="{title}", day="{date}", time="{time}")


class CalendarDelete(_OneEvent):
    instructions = (
        "[Delete|Remove|Erase] the event {title}",
        "[Remove|Delete] {title} from [the|my] calendar",
        "[Cancel|Drop] the event {title}[ in the calendar|]",
        "Get rid of {title} in [the|my] calendar",
        "In Calendar delete {title}",
    )
    script = ("{title}", "Delete", "Delete")
    done = deletes


class CalendarMove(_OneEvent):
    """`new` is the day the event moves to."""

    instructions = (
        "Move the event {title} to {new} October",
        "[Change|Set] the [date|day] of [|the event ]{title} to {new} October",
        "Move {title} in [the|my] calendar to {new} October",
        "The event {title} should be on {new} October, [move|change] it",
    )
    script = ("{title}", "Edit", "Date", "{new}", "Save")
    done = edits(day="{new_date}")

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        params = super().sample(rng)
        days = [d for d in range(TODAY.day, 32) if d != params["day"]]
        return {**params, "new": rng.choice(days)}

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        self.p["new_date"] = TODAY.replace(day=self.p["new"]).isoformat()


class CalendarTime(_OneEvent):
    instructions = (
        "[At what time|What time] is {title} in [the|my] calendar?",
        "At [what|which] time does [the event |]{title} [begin|start]?",
        "[Tell me|Look up] the time of [the event |]{title}[ in the calendar|]",
    )
    script = ()
    answer = "{time}"


class CalendarOnDay(_OneEvent):
    """The day is over, so the agenda no longer shows its event: it is found in the month."""

    instructions = (
        "Which event [was|did I have|was there] on {day} October?",
        "What [was|did I have] in [the|my] calendar on {day} October?",
        "[Tell me|Look up|Find] [which|what] event was on {day} October",
        "Name the event [of|on] {day} October",
    )
    script = ("Month", "{day}")
    answer = "{title}"

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {**super().sample(rng), "day": rng.randint(1, TODAY.day - 1)}


class CalendarToTasks(_OneEvent):
    """Two apps: the title read in one is written in the other."""

    split = "dev"
    instructions = (
        "Add a task with the title of the event on {day} October",
        "[Create|Make] a [|new ]task with the [title|name] of the event on {day} October",
        "[Write|Copy|Put] the [title|name] of the event on {day} October into [Tasks|a new task]",
    )
    script = (Launch("Tasks"), "New task", Type("{title}"), "Save")

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        self.tasks = phone.rows(TASKS)

    def done(self, phone: Admin) -> bool:
        new = find_added(self.tasks, phone.rows(TASKS))
        return [r["title"] for r in new] == [self.p["title"]] and phone.rows(self.table) == self.before
