"""Contacts: people with a phone number and an e-mail address, searched, edited, starred and deleted."""

from __future__ import annotations

import random

from envs.phone.app import App, Page, Row
from envs.phone.apps.messages import Messages
from envs.phone.apps.people import full_name, phone_number
from envs.phone.ui import Dialog, Node, Screen
from envs.phone.widgets import button, fab, field, icon_button, item, label, text_button
from envs.phone.words import FIRST_NAMES, LAST_NAMES, MAIL_HOSTS

FIELDS = {"first": "First name", "last": "Last name", "phone": "Phone", "email": "Email"}
COUNT = 8


class Contacts(App):
    package = "com.android.contacts"
    label = "Contacts"
    authority = "contacts"
    icon = "person"
    color = "#1A73E8"
    tables = {"people": {"first": "", "last": "", "phone": "", "email": "", "favourite": 0}}

    def populate(self, rng: random.Random) -> None:
        for i, first in enumerate(rng.sample(FIRST_NAMES, COUNT)):
            email = f"{first}@{rng.choice(MAIL_HOSTS)}"
            self.insert("people", first=first, last=rng.choice(LAST_NAMES), phone=phone_number(rng), email=email,
                        favourite=int(i < 2))  # fmt: skip

    def ordered(self) -> list[Row]:
        return sorted(self.db["people"], key=lambda r: (full_name(r).casefold(), r["_id"]))

    # --- pages -----------------------------------------------------------------------------------------------

    def page_main(self, page: Page) -> Screen:
        body = [self._row(person) for person in self.ordered()] or [label("No contacts yet")]
        actions = [icon_button("search", "Search", lambda: self.go("search", focus="query"))]
        return Screen("Contacts", body, actions, fab=fab("plus", "New contact", lambda: self.go("edit", focus="first")))

    def _row(self, person: Row) -> Node:
        name = full_name(person)
        star = Node(cls="android.widget.ImageView", desc="Favourite", look="row_icon", icon="star_filled", width=28,
                    height=28)  # fmt: skip
        return item(
            name,
            on_tap=lambda: self.go("view", id=person["_id"]),
            avatar=name,
            trailing=[star] if person["favourite"] else (),
        )

    def page_search(self, page: Page) -> Screen:
        query = page.fields.get("query", "").casefold().strip()
        hits = [p for p in self.ordered() if query and query in f"{full_name(p)} {p['phone']} {p['email']}".casefold()]
        return Screen("Search", [field("query", "Search contacts"), *(self._row(p) for p in hits)], on_up=self.up)

    def page_view(self, page: Page) -> Screen:
        person = self.get("people", page.args["id"])
        if person is None:
            return Screen("Contact", [label("This contact was deleted")], on_up=self.up)
        star = "Remove favourite" if person["favourite"] else "Add favourite"
        actions = [
            icon_button("star_filled" if person["favourite"] else "star", star,
                        lambda: person.update(favourite=1 - person["favourite"])),
            icon_button("edit", "Edit", lambda: self._edit(person)),
            icon_button("trash", "Delete", lambda: self.open_dialog("delete")),
        ]  # fmt: skip
        body = [item(person["phone"] or "No number", "Phone", icon="phone")]
        if person["email"]:
            body.append(item(person["email"], "Email", icon="mail"))
        body.append(Node(pad=(16, 8), children=[button("Message", lambda: self._message(person))]))
        return Screen(full_name(person), body, actions, on_up=self.up)

    def page_edit(self, page: Page) -> Screen:
        body = [field(key, hint) for key, hint in FIELDS.items()]
        title = "Edit contact" if "id" in page.args else "New contact"
        return Screen(title, body, [icon_button("check", "Save", lambda: self._save(page))], on_up=self.up)

    def dialog_delete(self, page: Page) -> Dialog:
        buttons = [text_button("Cancel", self.close_dialog), text_button("Delete", lambda: self._delete(page))]
        return Dialog("Delete contact?", [label("It cannot be restored.")], buttons)

    def start_new(self, name: str, phone: str, email: str) -> None:
        """Opens the page of a new contact, filled in as another app asked."""
        first, _, last = name.partition(" ")
        self.go("edit", focus="first", fields={"first": first, "last": last, "phone": phone, "email": email})

    # --- changes ---------------------------------------------------------------------------------------------

    def _edit(self, person: Row) -> None:
        self.go("edit", focus="first", fields={key: str(person[key]) for key in FIELDS}, id=person["_id"])

    def _save(self, page: Page) -> None:
        values = {key: page.fields[key].strip() for key in FIELDS}
        if not values["first"] and not values["last"]:
            self.toast("A contact needs a name")
            return
        person = self.get("people", page.args.get("id", 0))
        if person is None:
            self.insert("people", **values)
        else:
            person.update(values)
        self.up()
        self.toast("Contact saved")

    def _delete(self, page: Page) -> None:
        self.close_dialog()
        self.remove("people", page.args["id"])
        self.up()
        self.toast("Contact deleted")

    def _message(self, person: Row) -> None:
        messages = self.phone.apps.get(Messages.package)
        if not isinstance(messages, Messages):
            self.toast("Messages is not installed")
            return
        self.phone.open(messages.package)
        messages.open_thread(full_name(person), write=True)
