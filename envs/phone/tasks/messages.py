"""Tasks of Messages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

from mobilerl.envs.base import Action, Finish, Launch
from mobilerl.envs.phone.apps.messages import DRAFT, RECEIVED, SENT
from mobilerl.envs.phone.apps.people import full_name, phone_number
from mobilerl.envs.phone.tasks.base import Admin, Row, RowTemplate, Type
from mobilerl.envs.phone.tasks.contacts import PEOPLE, add_contact, draw_name
from mobilerl.envs.phone.tasks.helpers import adds, edit_row, find_added, tap_field, unchanged
from mobilerl.envs.phone.tasks.ui import UI
from mobilerl.envs.phone.words import FIRST_NAMES, LAST_NAMES, MESSAGE_TEXTS

OLD_NUMBER = "20 30 40"


def _is_to(first: str, row: Row) -> bool:
    """Whether a message is from or to someone with this first name."""
    return row["address"].split(" ")[0] == first


class _NewMessage(RowTemplate):
    """The contacts of the task are there, without a conversation."""

    app = "Messages"
    table = "sms/messages"
    params = {"name": draw_name, "body": MESSAGE_TEXTS}

    def names(self) -> tuple[str, ...]:
        return (self.p["name"],)

    def clear(self, phone: Admin) -> None:
        for name in self.names():
            add_contact(phone, name, phone=OLD_NUMBER)
            phone.delete_where(self.table, partial(_is_to, name.split(" ")[0]))


class _Thread(_NewMessage):
    """A contact with one conversation, which ends with the received text `last`."""

    last = "{body}"
    new_row = {"address": "{name}", "body": "{last}", "type": RECEIVED, "read": 1}

    def clear(self, phone: Admin) -> None:
        super().clear(phone)
        self.p["last"] = self.text(self.last)
        phone.delete_where(self.table, lambda row: row["body"] == self.p["last"])


class MessagesReadLast(_Thread):
    instructions = (
        "What did {name} [write|say|send me] in the last message?",
        "What [is|was] the last message from {name}?",
        "[Tell me|Look up] the last message [from|of] {name}",
        "What does the last message from {name} say?",
        "In Messages, what did {name} [write|say] last?",
    )
    script = ()
    answer = "{body}"
    done = unchanged


class MessagesOpenUnread(_Thread):
    new_row = {**_Thread.new_row, "read": 0}
    instructions = (
        "[Open|Read|Open and read] the new message from {name}",
        "In Messages [open|read] the new message from {name}",
        "There is a new message from {name}, [open|read] it",
        "{name} has sent [me |]a new message, [open|read] it",
    )
    script = ("{name}",)

    def done(self, phone: Admin) -> bool:
        mine = [r["_id"] for r in self.before if r["address"] == self.p["name"]]
        return phone.rows(self.table) == [r | {"read": 1} if r["_id"] in mine else r for r in self.before]


class MessagesSend(_NewMessage):
    instructions = (
        "Send {name} [a new message|a message] that says {body}",
        "[Write|Send] {body} to {name} in [Messages|a new message]",
        "[Text|Message] {name}: {body}",
        "Send [the message|the text] {body} to {name}",
        "In Messages [send|write] to {name}: {body}",
    )
    script = ("New message", "{name}", Type("{body}"), "Send")
    done = adds(address="{name}", body="{body}", type=SENT, read=1)


class MessagesReply(_Thread):
    instructions = (
        "Answer {name} in Messages with {reply}",
        "Answer the [last |]message [from|of] {name} with {reply}",
        "Send {reply} as [an|the] answer to {name}[ in Messages|]",
        "{name} has sent me a message, answer [|it ]with {reply}",
    )
    script = ("{name}", tap_field("Text message"), Type("{reply}"), "Send")
    done = adds(address="{name}", body="{reply}", type=SENT, read=1)

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        body, reply = rng.sample(MESSAGE_TEXTS, 2)
        return {"name": draw_name(rng), "body": body, "reply": reply}


class MessagesDelete(_Thread):
    instructions = (
        "[Delete|Remove|Erase] the [conversation|messages] with {name}[ in Messages|]",
        "Get rid of the conversation with {name}",
        "I do not need the conversation with {name} [any more|any longer], delete it",
    )
    script = ("{name}", "Delete", "Delete")

    def done(self, phone: Admin) -> bool:
        return phone.rows(self.table) == [r for r in self.before if r["address"] != self.p["name"]]


class MessagesDraft(_NewMessage):
    split = "dev"
    instructions = (
        "Save a message to {name} that says {body}, do not send it",
        "Write {body} to {name} in Messages and keep it for later, do not send it",
        "[Save|Keep] {body} for later as a message to {name}, do not send it[ yet|]",
        "In Messages [save|keep] {body} for {name}, do not send it[ yet|]",
        "[Type|Write] {body} as a message to {name}, do not send it, save it for later",
    )
    script = ("New message", "{name}", Type("{body}"), "Navigate up")
    done = adds(address="{name}", body="{body}", type=DRAFT, read=1)


class _TwoPeople(_NewMessage):
    """There are two contacts, without a conversation."""

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        first, second = (f"{f} {rng.choice(LAST_NAMES)}" for f in rng.sample(FIRST_NAMES, 2))
        return {"name": first, "other": second, "body": rng.choice(MESSAGE_TEXTS)}

    def names(self) -> tuple[str, ...]:
        return (self.p["name"], self.p["other"])


class MessagesSendTwo(_TwoPeople):
    instructions = (
        "[Send|Write|Text] {body} to {name} and [also |]to {other}",
        "[Send|Write] {name} and also {other} the message {body}",
        "{name} and {other} should get the message {body}",
        "In Messages [send|write] to {name} and to {other}: {body}",
    )
    steps = 11

    def done(self, phone: Admin) -> bool:
        return all(self.conditions(phone, ""))

    def conditions(self, phone: Admin, answer: str) -> list[bool]:
        wanted = [{"address": name, "body": self.p["body"], "type": SENT, "read": 1} for name in self.names()]
        new = find_added(self.before, phone.rows(self.table))
        return [new in ([row], wanted, wanted[::-1]) for row in wanted]

    def expert(self, ui: UI) -> Iterator[Action]:
        yield Launch("Messages")
        for i, name in enumerate(self.names()):
            if i:
                yield from ui.press("Navigate up")
            yield from ui.press("New message")
            yield from ui.press(name)
            yield Type(self.p["body"])
            yield from ui.press("Send")
        yield Finish()


class MessagesSaveNumber(_Thread):
    """Across two apps: a contact writes their new number."""

    split = "dev"
    instructions = (
        "Save the new number from the last message of {name} in Contacts",
        "{name} has sent [me |]a new [phone |]number[ in Messages|], save it in Contacts",
        "In Contacts [save|set] the new number that {name} has sent [me|in Messages]",
    )
    last = "my new number is {phone}"
    script = (Launch("Contacts"), "{name}", "Edit", tap_field("Phone"), Type("{phone}"), "Save")

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        number = phone_number(rng)
        while number == OLD_NUMBER:
            number = phone_number(rng)
        return {"name": draw_name(rng), "phone": number}

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        self.people = phone.rows(PEOPLE)

    def done(self, phone: Admin) -> bool:
        row_id = next(r["_id"] for r in self.people if full_name(r) == self.p["name"])
        saved = phone.rows(PEOPLE) == edit_row(self.people, row_id, phone=self.p["phone"])
        return saved and phone.rows(self.table) == self.before
