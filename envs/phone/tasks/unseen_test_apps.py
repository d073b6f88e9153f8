"""Templates that are never trained on, for results: tasks across two apps."""

from __future__ import annotations

import random
from typing import Any

from mobilerl.envs.base import Launch
from mobilerl.envs.phone.apps.messages import SENT
from mobilerl.envs.phone.apps.people import full_name
from mobilerl.envs.phone.tasks.base import Admin, Row, RowTemplate, Type
from mobilerl.envs.phone.tasks.calculator import _calculate, _Sum
from mobilerl.envs.phone.tasks.contacts import PEOPLE, add_contact, draw_name
from mobilerl.envs.phone.tasks.helpers import adds, edits, find_added, reach, tap_field
from mobilerl.envs.phone.tasks.messages import OLD_NUMBER, MessagesSaveNumber, _is_to, _TwoPeople
from mobilerl.envs.phone.tasks.notes import NOTES
from mobilerl.envs.phone.tasks.shop import PRICES, _OneProduct
from mobilerl.envs.phone.tasks.todo import _OneTask, _Tasks
from mobilerl.envs.phone.words import NOTE_LINES, NOTE_TITLES

MESSAGES = "sms/messages"


class CalculatorToMessage(_Sum):
    split = "test"
    instructions = (
        "[Calculate|Work out] {sum} and send the result to {name}[ in Messages|]",
        "Send {name} the result of {sum}, use [Calculator|the calculator]",
        "{name} should get the result of {sum}, [calculate|work out] and send it",
        "Use the calculator for {sum} and send [the result to {name}|{name} the result]",
    )
    params = {**_Sum.params, "name": draw_name}
    script = (_calculate, Launch("Messages"), "New message", "{name}", Type("{result}"), "Send")
    steps = 11

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        add_contact(phone, self.p["name"], phone=OLD_NUMBER)
        phone.delete_where(MESSAGES, lambda row: _is_to(self.p["name"].split(" ")[0], row))
        self.messages = phone.rows(MESSAGES)

    def done(self, phone: Admin) -> bool:
        new = find_added(self.messages, phone.rows(MESSAGES))
        sent = [(row["address"], str(row["body"]), row["type"]) for row in new]
        return super().done(phone) and sent == [(self.p["name"], self.p["result"], SENT)]


class ContactsNumberToMessage(_TwoPeople):
    """The number is that of `name`, and the message is for `other`."""

    app = "Contacts"
    split = "test"
    instructions = (
        "Send the [phone number|number] of {name} to {other}[ in Messages|]",
        "Send {other} the [phone number|number] of {name}[ from Contacts|]",
        "{other} should get the phone number of {name}[, send it|]",
        "Look up the number of {name} and send it to {other}",
    )
    script = ("{name}", Launch("Messages"), "New message", "{other}", Type("{phone}"), "Send")
    sends = staticmethod(adds(address="{other}", body="{phone}", type=SENT, read=1))

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {**super().sample(rng), "phone": MessagesSaveNumber.sample(rng)["phone"]}

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        person = next(row for row in phone.rows(PEOPLE) if full_name(row) == self.p["name"])
        phone.update(PEOPLE, person["_id"], phone=self.p["phone"])
        self.people = phone.rows(PEOPLE)

    def done(self, phone: Admin) -> bool:
        return self.sends(self, phone) and phone.rows(PEOPLE) == self.people


class ShopPriceToNote(_OneProduct):
    split = "test"
    instructions = (
        "Write the price of the {product} [in|from] {category} [into|in] a new note titled {title}",
        "[Save|Put] the price of the {product} from {category} in a note titled {title}",
        "Create a note [titled|called] {title} with the price of the {product} from {category}",
        "How much is the {product} from {category}? Write it in a new note titled {title}",
        "Look up the price of the {product} in {category} and write it in a note titled {title}",
    )
    params = {"price": PRICES, "title": NOTE_TITLES}
    script = (
        *("{category}", reach("{product}"), Launch("Notes"), "New note", Type("{title}")),
        *(tap_field("Note"), Type("{shown}"), "Save"),
    )

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        phone.delete_where(NOTES, lambda row: row["title"] == self.p["title"])
        self.notes, self.p["shown"] = phone.rows(NOTES), self.language.readings(self.p["cost"])[0]

    def done(self, phone: Admin) -> bool:
        new = find_added(self.notes, phone.rows(NOTES))
        written = [row["title"] for row in new] == [self.p["title"]] and self.says(str(new[0]["body"]), self.p["cost"])
        return written and phone.rows(self.table) == self.before


class NoteToTask(_Tasks):
    """The text read in one app is the title of what is added in the other."""

    app = "Notes"
    split = "test"
    instructions = (
        "[Add|Create|Make] a [|new ]task with the text of the note {note}",
        "[Write|Copy|Put] the text of [the|my] note {note} into [Tasks|a new task]",
    )
    params = {"title": NOTE_LINES, "note": NOTE_TITLES}
    script = (Launch("Tasks"), "New task", Type("{title}"), "Save")
    adds_task = staticmethod(adds(title="{title}", done=0))

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        self.notes = _put_note(self, phone)

    def done(self, phone: Admin) -> bool:
        return self.adds_task(self, phone) and phone.rows(NOTES) == self.notes


class TodoAndNote(_OneTask):
    """Two changes that have nothing to do with each other."""

    split = "test"
    instructions = (
        "Mark the task {title} as [done|finished] and [delete|remove] the note {note}",
        "[Delete|Remove] the note {note} and tick off the task {title}",
        "Tick off the task {title} and [delete|remove|erase] the note {note}",
        "The task {title} is done, tick it off and delete the note {note}",
    )
    params = {**_OneTask.params, "note": NOTE_TITLES}
    script = ("Done {title}", Launch("Notes"), "{note}", "Delete", "Delete")
    ticks = staticmethod(edits(done=1))

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        self.notes = _put_note(self, phone)

    def done(self, phone: Admin) -> bool:
        return self.ticks(self, phone) and phone.rows(NOTES) == self.notes[:-1]


def _put_note(task: RowTemplate, phone: Admin) -> list[Row]:
    """Makes the task's `note` the only one of that title, the last of those that are returned."""
    phone.delete_where(NOTES, lambda row: row["title"] == task.p["note"])
    phone.insert(NOTES, title=task.p["note"], body=task.p["title"])
    return phone.rows(NOTES)
