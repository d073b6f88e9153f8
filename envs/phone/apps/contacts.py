"""Contacts: people with a phone number and an e-mail address, searched, edited, starred and deleted."""

from __future__ import annotations

import random
from functools import partial

from mobilerl.envs.phone.app import App, Page, Row
from mobilerl.envs.phone.apps.messages import Messages
from mobilerl.envs.phone.apps.people import full_name, phone_number
from mobilerl.envs.phone.panes import ListDetail
from mobilerl.envs.phone.ui import IMAGE, Dialog, Node, Screen
from mobilerl.envs.phone.widgets import fab, field, flip, icon_button, item, label, wide_button
from mobilerl.envs.phone.words import FIRST_NAMES, LAST_NAMES, MAIL_HOSTS

FIELDS = {"first": "First name", "last": "Last name", "phone": "Phone", "email": "Email"}
COUNT = 8


class Contacts(App):
    package = "com.android.contacts"
    label = "Contacts"
    authority = "contacts"
    icon = "person"
    color = "#1A73E8"
    tables = {"people": {"first": "", "last": "", "phone": "", "email": "", "favourite": 0}}
    list_detail = ListDetail(("main", "search"), ("view", "edit"), "Select a contact")

    def populate(self, rng: random.Random) -> None:
        for i, first in enumerate(rng.sample(FIRST_NAMES, COUNT)):
            email = f"{first}@{rng.choice(MAIL_HOSTS)}"
            self.insert(
                "people",
                first=first,
                last=rng.choice(LAST_NAMES),
                phone=phone_number(rng),
                email=email,
                favourite=int(i < 2),
            )

    def sort_rows(self) -> list[Row]:
        return sorted(self.db["people"], key=lambda r: (full_name(r).casefold(), r["_id"]))

    def page_main(self, page: Page) -> Screen:
        body = [self._row(person) for person in self.sort_rows()] or [label(self.t("No contacts yet"))]
        new = fab("plus", self.t("New contact"), lambda: self.go("edit", focus="first"))
        return Screen(self.t("Contacts"), body, [self.search_button()], fab=new)

    def _row(self, person: Row) -> Node:
        name = full_name(person)
        star = Node(cls=IMAGE, desc=self.t("Favourite"), look="row_icon", icon="star_filled", width=28, height=28)
        return item(
            name,
            on_tap=lambda: self.go("view", id=person["_id"]),
            avatar=name,
            trailing=[star] if person["favourite"] else (),
            selected=self.shown_beside(id=person["_id"]),
        )

    def page_search(self, page: Page) -> Screen:
        def text(person: Row) -> str:
            return f"{full_name(person)} {person['phone']} {person['email']}"

        return self.search_screen(page, self.t("Search contacts"), self.sort_rows(), text, self._row)

    def page_view(self, page: Page) -> Screen:
        person = self.get("people", page.args["id"])
        if person is None:
            return self.missing(self.t("Contact"), self.t("This contact was deleted"))
        icon, name = ("star_filled", "Remove favourite") if person["favourite"] else ("star", "Add favourite")
        actions = [
            icon_button(icon, self.t(name), flip(person, "favourite")),
            icon_button("edit", self.t("Edit"), lambda: self._edit(person)),
            icon_button("trash", self.t("Delete"), lambda: self.open_dialog("delete")),
        ]
        body = [item(person["phone"] or self.t("No number"), self.t("Phone"), icon="phone")]
        if person["email"]:
            body.append(item(person["email"], self.t("Email"), icon="mail"))
        body.append(wide_button(self.t("Message"), lambda: self._message(person)))
        return Screen(full_name(person), body, actions, on_up=self.up)

    def page_edit(self, page: Page) -> Screen:
        body = [field(key, self.t(hint)) for key, hint in FIELDS.items()]
        title = self.t("Edit contact" if "id" in page.args else "New contact")
        return Screen(title, body, [icon_button("check", self.t("Save"), lambda: self._save(page))], on_up=self.up)

    def dialog_delete(self, page: Page) -> Dialog:
        delete = partial(self.delete, "people", page.args["id"], "Contact")
        return self.confirmation(self.t("Delete contact?"), delete, text=self.t("It cannot be restored."))

    def start_new(self, name: str, phone: str, email: str) -> None:
        """Opens the page of a new contact, filled in as another app asked."""
        first, _, last = name.partition(" ")
        self.go("edit", focus="first", fields={"first": first, "last": last, "phone": phone, "email": email})

    def _edit(self, person: Row) -> None:
        self.go("edit", focus="first", fields={key: str(person[key]) for key in FIELDS}, id=person["_id"])

    def _save(self, page: Page) -> None:
        values = {key: page.fields[key].strip() for key in FIELDS}
        if not values["first"] and not values["last"]:
            self.toast(self.t("A contact needs a name"))
            return
        self.save(page, "people", values, "Contact")

    def _message(self, person: Row) -> None:
        messages = self.phone.apps.get(Messages.package)
        if not isinstance(messages, Messages):
            self.toast(self.t("Messages is not installed"))
            return
        self.phone.open(messages.package)
        messages.open_thread(full_name(person), write=True)
