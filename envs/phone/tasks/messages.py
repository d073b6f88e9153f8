"""Tasks of Messages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from envs.base import Action
from envs.phone.apps.messages import DRAFT, RECEIVED, SENT
from envs.phone.apps.people import full_name, phone_number
from envs.phone.tasks.base import Admin, Hand, Template, same_answer
from envs.phone.tasks.contacts import PEOPLE, add_contact, draw_name
from envs.phone.tasks.rows import added, edited
from envs.phone.words import FIRST_NAMES, LAST_NAMES, MESSAGE_TEXTS

MESSAGES = "sms/messages"


def _clear_thread(phone: Admin, name: str) -> None:
    """Deletes the conversations with people of that first name."""
    for row in phone.rows(MESSAGES):
        if row["address"].split(" ")[0] == name.split(" ")[0]:
            phone.delete(MESSAGES, row["_id"])


def _message(address: str, body: str, kind: int) -> dict[str, Any]:
    return {"address": address, "body": body, "type": kind, "read": 1}


class _Thread(Template):
    """Somebody is a contact whom there is one conversation with, which ends with a received `body`."""

    app = "Messages"
    read = 1

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"name": draw_name(rng), "body": rng.choice(MESSAGE_TEXTS)}

    def last(self) -> str:
        return self.p["body"]

    def setup(self, phone: Admin) -> None:
        add_contact(phone, self.p["name"], phone="20 30 40")
        _clear_thread(phone, self.p["name"])
        for row in phone.rows(MESSAGES):
            if row["body"] == self.last():
                phone.delete(MESSAGES, row["_id"])
        phone.insert(MESSAGES, address=self.p["name"], body=self.last(), type=RECEIVED, read=self.read)
        self.before = phone.rows(MESSAGES)
        self.people = phone.rows(PEOPLE)

    def untouched(self, phone: Admin) -> bool:
        return phone.rows(MESSAGES) == self.before


class MessagesReadLast(_Thread):
    instructions = ("What did {name} write in the last message?",)
    steps = 2

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.p["body"]) and self.untouched(phone)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Messages")
        yield ui.finish(self.p["body"])


class MessagesOpenUnread(_Thread):
    read = 0
    instructions = ("Open and read the new message from {name}",)
    steps = 3

    def check(self, phone: Admin, answer: str) -> bool:
        mine = [r["_id"] for r in self.before if r["address"] == self.p["name"]]
        return phone.rows(MESSAGES) == [r | {"read": 1} if r["_id"] in mine else r for r in self.before]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Messages")
        yield ui.tap(self.p["name"])
        yield ui.finish()


class MessagesDelete(_Thread):
    instructions = ("Delete the conversation with {name} in Messages",)
    steps = 5

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.rows(MESSAGES) == [r for r in self.before if r["address"] != self.p["name"]]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Messages")
        yield ui.tap(self.p["name"])
        yield ui.tap("Delete")
        yield ui.tap("Delete")
        yield ui.finish()


class MessagesReply(_Thread):
    instructions = ("Answer {name} in Messages with {reply}",)
    steps = 6

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        body, reply = rng.sample(MESSAGE_TEXTS, 2)
        return {"name": draw_name(rng), "body": body, "reply": reply}

    def check(self, phone: Admin, answer: str) -> bool:
        return added(self.before, phone.rows(MESSAGES)) == [_message(self.p["name"], self.p["reply"], SENT)]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Messages")
        yield ui.tap(self.p["name"])
        yield ui.tap_field()
        yield ui.type(self.p["reply"])
        yield ui.tap("Send")
        yield ui.finish()


class MessagesSaveNumber(_Thread):
    """Across two apps: somebody writes their new number."""

    split = "test"
    instructions = ("Save the new number {name} wrote in Messages to Contacts",)
    steps = 8

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        number = phone_number(rng)
        while number == "20 30 40":
            number = phone_number(rng)
        return {"name": draw_name(rng), "phone": number}

    def last(self) -> str:
        return f"my new number is {self.p['phone']}"

    def check(self, phone: Admin, answer: str) -> bool:
        row_id = next(r["_id"] for r in self.people if full_name(r) == self.p["name"])
        return phone.rows(PEOPLE) == edited(self.people, row_id, phone=self.p["phone"]) and self.untouched(phone)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Messages")
        yield ui.launch("Contacts")
        yield ui.tap(self.p["name"])
        yield ui.tap("Edit")
        yield ui.tap_field(2)
        yield ui.type(self.p["phone"])
        yield ui.tap("Save")
        yield ui.finish()


class _NewMessage(Template):
    """The contacts of the task are there, without a conversation."""

    app = "Messages"

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"name": draw_name(rng), "body": rng.choice(MESSAGE_TEXTS)}

    def names(self) -> tuple[str, ...]:
        return (self.p["name"],)

    def setup(self, phone: Admin) -> None:
        for name in self.names():
            add_contact(phone, name, phone="20 30 40")
            _clear_thread(phone, name)
        self.before = phone.rows(MESSAGES)


class MessagesSend(_NewMessage):
    instructions = ("Send {name} a new message that says {body}", "Write {body} to {name} in Messages")
    steps = 6

    def check(self, phone: Admin, answer: str) -> bool:
        return added(self.before, phone.rows(MESSAGES)) == [_message(self.p["name"], self.p["body"], SENT)]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Messages")
        yield ui.tap("New message")
        yield ui.tap(self.p["name"])
        yield ui.type(self.p["body"])
        yield ui.tap("Send")
        yield ui.finish()


class MessagesDraft(_NewMessage):
    split = "test"
    instructions = ("Save a draft for {name} that says {body}",)
    steps = 6

    def check(self, phone: Admin, answer: str) -> bool:
        return added(self.before, phone.rows(MESSAGES)) == [_message(self.p["name"], self.p["body"], DRAFT)]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Messages")
        yield ui.tap("New message")
        yield ui.tap(self.p["name"])
        yield ui.type(self.p["body"])
        yield ui.tap("Navigate up")
        yield ui.finish()


class MessagesSendTwo(_NewMessage):
    instructions = ("Send {body} to {name} and also to {other}",)
    steps = 11

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        first, second = (f"{f} {rng.choice(LAST_NAMES)}" for f in rng.sample(FIRST_NAMES, 2))
        return {"name": first, "other": second, "body": rng.choice(MESSAGE_TEXTS)}

    def names(self) -> tuple[str, ...]:
        return (self.p["name"], self.p["other"])

    def check(self, phone: Admin, answer: str) -> bool:
        wanted = [_message(name, self.p["body"], SENT) for name in self.names()]
        return added(self.before, phone.rows(MESSAGES)) in (wanted, wanted[::-1])

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Messages")
        for i, name in enumerate(self.names()):
            if i:
                yield ui.tap("Navigate up")
            yield ui.tap("New message")
            yield ui.tap(name)
            yield ui.type(self.p["body"])
            yield ui.tap("Send")
        yield ui.finish()


TEMPLATES = (
    MessagesReadLast,
    MessagesOpenUnread,
    MessagesSend,
    MessagesReply,
    MessagesDelete,
    MessagesDraft,
    MessagesSendTwo,
    MessagesSaveNumber,
)
