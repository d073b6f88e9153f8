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
    instructions = (
        "What is the [phone number|number] of {name}?",
        "What [phone number|number] does {name} have?",
        "[Tell me|Look up|Find] the phone number of {name}[ in Contacts|]",
        "[Which|What] number do I need to call {name}?",
    )
    script = ("{name}",)
    answer = "{phone}"
    done = unchanged


class ContactsReadMissing(_NoContact):
    """There is no such contact: the right answer is that it cannot be done."""

    instructions = ContactsReadPhone.instructions
    params = {"name": draw_name}
    script = ()
    answer = INFEASIBLE
    done = unchanged


class ContactsWhoseNumber(_OneContact):
    split = "dev"
    instructions = (
        "Which [contact|of my contacts] has the [phone number|number] {phone}?",
        "Who has the [phone number|number] {phone}[ in Contacts|]?",
        "Whose [phone |]number is {phone}?",
        "[Tell me|Find|Look up] [who|which contact] has the number {phone}",
    )
    script = ("Search", Type("{phone}"))
    answer = "{name}"
    done = unchanged


class ContactsFavourite(_OneContact):
    instructions = (
        "Add the contact {name} to [the|my] favourites",
        "Make {name} a favourite [in Contacts|contact]",
        "[Mark|Save] {name} as a favourite in [Contacts|my contacts]",
        "{name} should be [a favourite in Contacts|one of my favourite contacts]",
        "In Contacts make {name} a favourite",
    )
    script = ("{name}", "Add favourite")
    done = edits(favourite=1)


class ContactsUnfavourite(_OneContact):
    demo = False
    new_row = {**_OneContact.new_row, "favourite": 1}
    instructions = (
        "Remove the contact {name} from [the|my] favourites",
        "Take {name} off [the|my] favourites in Contacts",
        "{name} should [not be a|be no] favourite in [Contacts|my contacts]",
        "Unmark {name} as a favourite in [Contacts|my contacts]",
        "In Contacts {name} is a favourite, undo that",
    )
    script = ("{name}", "Remove favourite")
    done = edits(favourite=0)


class ContactsDelete(_OneContact):
    instructions = (
        "Delete the contact {name}[ from this phone|]",
        "Remove {name} from [the Contacts app|Contacts|my contacts]",
        "[Delete|Erase] {name} in Contacts",
        "I do not need the contact {name} [any longer|any more], [delete|remove] it",
        "Get rid of the contact {name}",
    )
    script = ("{name}", "Delete", "Delete")
    done = deletes


class ContactsEditPhone(_OneContact):
    instructions = (
        "[Change|Set|Update] the [phone number|number] of {name} to {new}[ in Contacts|]",
        "{name} has a new [phone number|number], [change|set] it to {new}",
        "In Contacts give {name} the new number {new}",
    )
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
    instructions = (
        "[Create|Add|Save] a [contact for|new contact] {name} with the [phone number|number] {phone}",
        "Save the number {phone} as a new contact [named|called] {name}",
        "Add {name} to [Contacts|my contacts], [phone number|the number is] {phone}",
    )
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
