"""Tasks of Contacts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from envs.base import Action
from envs.phone.apps.people import full_name, phone_number
from envs.phone.tasks.base import INFEASIBLE, Admin, Hand, Template, same_answer
from envs.phone.tasks.rows import added, edited
from envs.phone.words import FIRST_NAMES, LAST_NAMES, MAIL_HOSTS

PEOPLE = "contacts/people"


def draw_name(rng: random.Random) -> str:
    return f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"


def clear_name(phone: Admin, name: str) -> None:
    """Deletes the contacts of that first name, so that `name` is not to be confused with another."""
    for row in phone.rows(PEOPLE):
        if row["first"] == name.split(" ")[0]:
            phone.delete(PEOPLE, row["_id"])


def add_contact(phone: Admin, name: str, /, **values: str | int) -> None:
    """Makes `name` a contact, the only one of that first name."""
    clear_name(phone, name)
    first, last = name.split(" ")
    phone.insert(PEOPLE, first=first, last=last, **values)


class _OneContact(Template):
    """A contact of the given name exists exactly once, between others."""

    app = "Contacts"
    favourite = 0

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"name": draw_name(rng), "phone": phone_number(rng)}

    def setup(self, phone: Admin) -> None:
        email = f"{self.p['name'].split(' ')[0]}@{MAIL_HOSTS[0]}"
        add_contact(phone, self.p["name"], phone=self.p["phone"], email=email, favourite=self.favourite)
        self.before = phone.rows(PEOPLE)
        self.row_id = next(r["_id"] for r in self.before if full_name(r) == self.p["name"])

    def is_exactly(self, phone: Admin, /, **wanted: str | int) -> bool:
        """Whether the contact is as it was but for `wanted`, and every other as it was."""
        return phone.rows(PEOPLE) == edited(self.before, self.row_id, **wanted)


class ContactsReadPhone(_OneContact):
    instructions = ("What is the phone number of {name}?",)
    steps = 3

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.p["phone"]) and self.is_exactly(phone)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Contacts")
        yield ui.tap(self.p["name"])
        yield ui.finish(self.p["phone"])


class ContactsWhoseNumber(_OneContact):
    split = "test"
    instructions = ("Which contact has the phone number {phone}?",)
    steps = 4

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.p["name"]) and self.is_exactly(phone)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Contacts")
        yield ui.tap("Search")
        yield ui.type(self.p["phone"])
        yield ui.finish(self.p["name"])


class ContactsFavourite(_OneContact):
    instructions = ("Add the contact {name} to the favourites", "Make {name} a favourite in Contacts")
    steps = 4

    def check(self, phone: Admin, answer: str) -> bool:
        return self.is_exactly(phone, favourite=1)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Contacts")
        yield ui.tap(self.p["name"])
        yield ui.tap("Add favourite")
        yield ui.finish()


class ContactsUnfavourite(_OneContact):
    demo = False
    favourite = 1
    instructions = ("Remove the contact {name} from the favourites",)
    steps = 4

    def check(self, phone: Admin, answer: str) -> bool:
        return self.is_exactly(phone, favourite=0)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Contacts")
        yield ui.tap(self.p["name"])
        yield ui.tap("Remove favourite")
        yield ui.finish()


class ContactsDelete(_OneContact):
    instructions = ("Delete the contact {name} from this phone", "Remove {name} from the Contacts app")
    steps = 5

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.rows(PEOPLE) == [r for r in self.before if r["_id"] != self.row_id]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Contacts")
        yield ui.tap(self.p["name"])
        yield ui.tap("Delete")
        yield ui.tap("Delete")
        yield ui.finish()


class ContactsEditPhone(_OneContact):
    instructions = ("Change the phone number of {name} to {new}",)
    steps = 7

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        params = super().sample(rng)
        new = phone_number(rng)
        while new == params["phone"]:
            new = phone_number(rng)
        return params | {"new": new}

    def check(self, phone: Admin, answer: str) -> bool:
        return self.is_exactly(phone, phone=self.p["new"])

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Contacts")
        yield ui.tap(self.p["name"])
        yield ui.tap("Edit")
        yield ui.tap_field(2)
        yield ui.type(self.p["new"])
        yield ui.tap("Save")
        yield ui.finish()


class _NoContact(Template):
    """No contact has that first name."""

    app = "Contacts"

    def setup(self, phone: Admin) -> None:
        clear_name(phone, self.p["name"])
        self.before = phone.rows(PEOPLE)


class ContactsCreate(_NoContact):
    instructions = ("Create a contact for {name} with the phone number {phone}",)
    steps = 9

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"name": draw_name(rng), "phone": phone_number(rng)}

    def check(self, phone: Admin, answer: str) -> bool:
        new = added(self.before, phone.rows(PEOPLE))
        return [(full_name(r), r["phone"]) for r in new] == [(self.p["name"], self.p["phone"])]

    def expert(self, ui: Hand) -> Iterator[Action]:
        first, last = self.p["name"].split(" ")
        yield ui.launch("Contacts")
        yield ui.tap("New contact")
        yield ui.type(first)
        yield ui.tap_field(1)
        yield ui.type(last)
        yield ui.tap_field(2)
        yield ui.type(self.p["phone"])
        yield ui.tap("Save")
        yield ui.finish()


class ContactsReadMissing(_NoContact):
    """There is no such contact: the right answer is that it cannot be done."""

    instructions = ("What is the phone number of {name}?",)
    steps = 2
    feasible = False

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"name": draw_name(rng)}

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, INFEASIBLE) and phone.rows(PEOPLE) == self.before

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Contacts")
        yield ui.finish(INFEASIBLE)


TEMPLATES = (
    ContactsReadPhone,
    ContactsReadMissing,
    ContactsWhoseNumber,
    ContactsFavourite,
    ContactsUnfavourite,
    ContactsDelete,
    ContactsEditPhone,
    ContactsCreate,
)
