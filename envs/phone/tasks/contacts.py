"""Tasks of Contacts."""

from __future__ import annotations

import random
from typing import Any

from mobilerl.envs.phone.apps.people import full_name, phone_number
from mobilerl.envs.phone.tasks.base import INFEASIBLE, Admin, RowTemplate, Type
from mobilerl.envs.phone.tasks.helpers import deletes, edits, find_added, tap_field, unchanged
from mobilerl.envs.phone.words import FIRST_NAMES, LAST_NAMES, MAIL_HOSTS

PEOPLE = "contacts/people"


def draw_name(rng: random.Random) -> str:
    return f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"


def clear_name(phone: Admin, name: str) -> None:
    """Deletes the contacts of that first name, which could be confused with `name`."""
    phone.delete_where(PEOPLE, lambda row: row["first"] == name.split(" ")[0])


def add_contact(phone: Admin, name: str, /, **values: str | int) -> None:
    """Makes `name` a contact, the only one of that first name."""
    clear_name(phone, name)
    first, last = name.split(" ")
    phone.insert(PEOPLE, first=first, last=last, **values)


class _NoContact(RowTemplate):
    """No contact has that first name."""

    app = "Contacts"
    table = PEOPLE

    def clear(self, phone: Admin) -> None:
        clear_name(phone, self.p["name"])


class _OneContact(_NoContact):
    """A contact of the given name exists exactly once, between others."""

    params = {"name": draw_name, "phone": phone_number}
    new_row = {"first": "{first}", "last": "{last}", "phone": "{phone}", "email": "{email}", "favourite": 0}

    def setup(self, phone: Admin) -> None:
        self.p["first"], self.p["last"] = self.p["name"].split(" ")
        self.p["email"] = f"{self.p['first']}@{MAIL_HOSTS[0]}"
        super().setup(phone)


class ContactsReadPhone(_OneContact):
    instructions = ("What is the phone number of {name}?",)
    script = ("{name}",)
    answer = "{phone}"
    done = unchanged


class ContactsReadMissing(_NoContact):
    """There is no such contact: the right answer is that it cannot be done."""

    instructions = ("What is the phone number of {name}?",)
    params = {"name": draw_name}
    script = ()
    answer = INFEASIBLE
    done = unchanged


class ContactsWhoseNumber(_OneContact):
    split = "test"
    instructions = ("Which contact has the phone number {phone}?",)
    script = ("Search", Type("{phone}"))
    answer = "{name}"
    done = unchanged


class ContactsFavourite(_OneContact):
    instructions = ("Add the contact {name} to the favourites", "Make {name} a favourite in Contacts")
    script = ("{name}", "Add favourite")
    done = edits(favourite=1)


class ContactsUnfavourite(_OneContact):
    demo = False
    new_row = {**_OneContact.new_row, "favourite": 1}
    instructions = ("Remove the contact {name} from the favourites",)
    script = ("{name}", "Remove favourite")
    done = edits(favourite=0)


class ContactsDelete(_OneContact):
    instructions = ("Delete the contact {name} from this phone", "Remove {name} from the Contacts app")
    script = ("{name}", "Delete", "Delete")
    done = deletes


class ContactsEditPhone(_OneContact):
    instructions = ("Change the phone number of {name} to {new}",)
    script = ("{name}", "Edit", tap_field("Phone"), Type("{new}"), "Save")
    done = edits(phone="{new}")

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        params = super().sample(rng)
        new = phone_number(rng)
        while new == params["phone"]:
            new = phone_number(rng)
        return params | {"new": new}


class ContactsCreate(_NoContact):
    instructions = ("Create a contact for {name} with the phone number {phone}",)
    params = {"name": draw_name, "phone": phone_number}
    script = (
        *("New contact", Type("{first}"), tap_field("Last name"), Type("{last}")),
        *(tap_field("Phone"), Type("{phone}"), "Save"),
    )

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        self.p["first"], self.p["last"] = self.p["name"].split(" ")

    def done(self, phone: Admin) -> bool:
        return all(self.conditions(phone, ""))

    def conditions(self, phone: Admin, answer: str) -> list[bool]:
        new = find_added(self.before, phone.rows(PEOPLE))
        return [len(new) == 1 and new[0]["phone"] == self.p["phone"], [full_name(r) for r in new] == [self.p["name"]]]
