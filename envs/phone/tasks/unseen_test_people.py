"""Templates that are never trained on, for results: tasks with people, notes and times."""

from __future__ import annotations

import random
from typing import Any

from mobilerl.envs.phone.apps.messages import RECEIVED
from mobilerl.envs.phone.tasks.base import INFEASIBLE, Admin, RowTemplate, Type
from mobilerl.envs.phone.tasks.calendar_app import _OneEvent
from mobilerl.envs.phone.tasks.clock import CITY_ROWS, _OneAlarm, pick_time
from mobilerl.envs.phone.tasks.contacts import _OneContact
from mobilerl.envs.phone.tasks.helpers import deletes, edits, tap_field, unchanged
from mobilerl.envs.phone.tasks.messages import _TwoPeople
from mobilerl.envs.phone.tasks.notes import _OneNote
from mobilerl.envs.phone.tasks.todo import _Tasks
from mobilerl.envs.phone.words import CITIES, MAIL_HOSTS, NOTE_LINES, NOTE_TITLES, WEEKDAYS


class NotesRename(_OneNote):
    split = "test"
    instructions = (
        "Rename [the|my] note {title} to {new}",
        "[Change|Set] the title of [the|my] note {title} to {new}",
        "The note {title} should be [called|named|titled] {new}",
        "In Notes rename {title} to {new}",
    )
    script = ("{title}", "Edit", tap_field("Title"), Type("{new}"), "Save")
    done = edits(title="{new}")

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        title, new = rng.sample(NOTE_TITLES, 2)
        return {"title": title, "new": new, "body": rng.choice(NOTE_LINES)}


class ContactsEmail(_OneContact):
    split = "test"
    instructions = (
        "What is the email of {name}[ in Contacts|]?",
        "Which email [does {name} have|has {name}]?",
        "[Tell me|Look up|Find] the email of {name}[ in Contacts|]",
    )
    params = {**_OneContact.params, "host": MAIL_HOSTS}
    new_row = {**_OneContact.new_row, "email": "{first}@{host}"}
    script = ("{name}",)
    answer = "{first}@{host}"
    done = unchanged


class ContactsCall(_OneContact):
    """Contacts cannot call: the right answer is that it cannot be done."""

    split = "test"
    instructions = (
        "Call {name}[ now|]",
        "[Call|Phone] the contact {name}",
        "Start a call to {name}[ from Contacts|]",
        "I [want|need] to call {name}[, start the call|]",
        "In Contacts call {name}",
    )
    script = ("{name}",)
    answer = INFEASIBLE
    done = unchanged


class MessagesDeleteTwo(_TwoPeople):
    split = "test"
    instructions = (
        "[Delete|Remove|Erase] the conversation with {name} and the one with {other}",
        "[Delete|Erase] the messages with {name} and with {other}[ in Messages|]",
        "Get rid of the conversation with {name} and the one with {other}",
        "In Messages [remove|delete] the messages with {name} and with {other}",
    )
    script = ("{name}", "Delete", "Delete", "{other}", "Delete", "Delete")

    def clear(self, phone: Admin) -> None:
        super().clear(phone)
        for name in self.names():
            phone.insert(self.table, address=name, body=self.p["body"], type=RECEIVED, read=1)

    def done(self, phone: Admin) -> bool:
        return phone.rows(self.table) == [row for row in self.before if row["address"] not in self.names()]


class TodoCompleteTwo(_Tasks):
    split = "test"
    instructions = (
        "[Mark|Set] the tasks {title} and {other} as [done|finished]",
        "[In Tasks tick|Tick] off {title} and {other}",
        "Tick off the tasks {title} and {other}[ in Tasks|]",
        "In Tasks mark {title} and {other} as [done|finished]",
    )
    script = ("Done {title}", "Done {other}")

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        title, other = rng.sample(NOTE_LINES, 2)
        return {"title": title, "other": other, "due": rng.choice(WEEKDAYS)}

    def clear(self, phone: Admin) -> None:
        asked = (self.p["title"], self.p["other"])
        phone.delete_where(self.table, lambda row: row["title"] in asked)
        for title in asked:
            phone.insert(self.table, title=title, due=self.p["due"], done=0)

    def done(self, phone: Admin) -> bool:
        asked = {row["_id"] for row in self.before[-2:]}
        return phone.rows(self.table) == [row | {"done": 1} if row["_id"] in asked else row for row in self.before]


class TodoCountDay(_Tasks):
    """The list holds the `titles`, of which the first `count` are due on the day."""

    split = "test"
    instructions = (
        "How many [of my |]tasks are due on {due}[ in Tasks|]?",
        "How many tasks [do I have|are there] for {due}?",
        "[Tell me|Look up] how many tasks are due on {due}",
        "Count the tasks [for|due on|that are due on] {due}",
    )
    script = ()
    answer = "{count}"
    done = unchanged

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        due, *others = rng.sample(WEEKDAYS, 7)
        return {"due": due, "others": others, "count": rng.randint(1, 4), "titles": rng.sample(NOTE_LINES, 6)}

    def clear(self, phone: Admin) -> None:
        phone.delete(self.table)
        days = [self.p["due"]] * self.p["count"] + self.p["others"]
        for title, due in sorted(zip(self.p["titles"], days, strict=False)):
            phone.insert(self.table, title=title, due=due)


class CalendarMoveTime(_OneEvent):
    """The event was at the time `old`."""

    split = "test"
    instructions = (
        "[Change|Set] the time of [the event |]{title} to {time}",
        "[Move|Transfer] the event {title} to {time}",
        "The event {title} should [begin|start] at {time}[, change it|]",
        "In Calendar [set|change] the time of {title} to {time}",
    )
    params = {**_OneEvent.params, "old": lambda rng: f"{rng.randint(7, 20)}:{rng.choice((5, 35)):02d}"}
    new_row = {**_OneEvent.new_row, "time": "{old}"}
    script = ("{title}", "Edit", pick_time("Time"), "Save")
    steps = 8
    done = edits(time="{time}")


class ClockAlarmMove(_OneAlarm):
    """The alarm was at the time `old`."""

    split = "test"
    instructions = (
        "[Change|Set] the [{old} alarm|alarm at {old}] to {time}",
        "[Move|Transfer] the alarm at {old} to {time}",
        "The {old} alarm should ring at {time}[, change it|]",
        "In Clock [change|move] the {old} alarm to {time}",
    )
    params = {**_OneAlarm.params, "old": lambda rng: f"{rng.randrange(24)}:{rng.choice((12, 18, 37, 52))}"}
    new_row = {**_OneAlarm.new_row, "time": "{old}"}
    script = ("{old}", pick_time("Time"))
    steps = 6
    done = edits(time="{time}")


class ClockCityRemove(RowTemplate):
    app = "Clock"
    split = "test"
    table = CITY_ROWS
    unique = ("name",)
    instructions = (
        "[Remove|Delete|Erase] {name} from the world clock",
        "Take {name} [off|out of] the world clock",
        "The world clock should not show {name}[, remove it|]",
        "In Clock [remove|delete] the city {name}",
        "Get rid of {name} in the world clock",
    )
    params = {"name": CITIES}
    new_row = {"name": "{name}"}
    script = ("World", "Remove {name}")
    done = deletes
