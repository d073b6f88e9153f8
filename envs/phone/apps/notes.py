"""Notes: short texts with a title, searched, edited, pinned and deleted."""

from __future__ import annotations

import random
from functools import partial

from mobilerl.envs.phone.app import App, Page, Row
from mobilerl.envs.phone.panes import ListDetail
from mobilerl.envs.phone.ui import IMAGE, Dialog, Node, Screen
from mobilerl.envs.phone.widgets import fab, field, flip, icon_button, item, label
from mobilerl.envs.phone.words import NOTE_LINES, NOTE_TITLES


class Notes(App):
    package = "com.android.notes"
    label = "Notes"
    authority = "notes"
    icon = "note"
    color = "#F2B600"
    tables = {"notes": {"title": "", "body": "", "pinned": 0}}
    list_detail = ListDetail(("main", "search"), ("view", "edit"), "Select a note")

    def populate(self, rng: random.Random) -> None:
        for title in rng.sample(NOTE_TITLES, 4):
            self.insert("notes", title=title, body=rng.choice(NOTE_LINES))

    def sort_rows(self) -> list[Row]:
        """Pinned notes first, then the newest."""
        return sorted(self.db["notes"], key=lambda r: (-r["pinned"], -r["_id"]))

    def page_main(self, page: Page) -> Screen:
        body = [self._row(note) for note in self.sort_rows()] or [label(self.t("No notes yet"))]
        new = fab("plus", self.t("New note"), lambda: self.go("edit", focus="title"))
        return Screen(self.t("Notes"), body, [self.search_button()], fab=new)

    def _row(self, note: Row) -> Node:
        pin = [Node(cls=IMAGE, desc=self.t("Pinned"), look="row_icon", icon="pin", width=28, height=28)]
        row = item(
            note["title"],
            note["body"],
            on_tap=lambda: self.go("view", id=note["_id"]),
            trailing=pin if note["pinned"] else (),
            selected=self.shown_beside(id=note["_id"]),
        )
        row.look = "card"
        return row

    def page_search(self, page: Page) -> Screen:
        def text(note: Row) -> str:
            return f"{note['title']} {note['body']}"

        return self.search_screen(page, self.t("Search notes"), self.sort_rows(), text, self._row)

    def page_view(self, page: Page) -> Screen:
        note = self.get("notes", page.args["id"])
        if note is None:
            return self.missing(self.t("Note"), self.t("This note was deleted"))
        pin = self.t("Unpin" if note["pinned"] else "Pin")
        actions = [
            icon_button("pin", pin, flip(note, "pinned")),
            icon_button("edit", self.t("Edit"), lambda: self._edit(note)),
            icon_button("trash", self.t("Delete"), lambda: self.open_dialog("delete")),
        ]
        return Screen(note["title"], [label(note["body"], size=16)], actions, on_up=self.up)

    def page_edit(self, page: Page) -> Screen:
        body = [field("title", self.t("Title")), field("body", self.t("Note"), lines=3)]
        save = icon_button("check", self.t("Save"), lambda: self._save(page))
        return Screen(self.t("Edit note"), body, [save], on_up=self.up)

    def dialog_delete(self, page: Page) -> Dialog:
        delete = partial(self.delete, "notes", page.args["id"], "Note")
        return self.confirmation(self.t("Delete note?"), delete, text=self.t("It cannot be restored."))

    def _edit(self, note: Row) -> None:
        self.go("edit", focus="title", fields={"title": note["title"], "body": note["body"]}, id=note["_id"])

    def _save(self, page: Page) -> None:
        values = {"title": page.fields["title"].strip(), "body": page.fields["body"].strip()}
        if not values["title"]:
            self.toast(self.t("A note needs a title"))
            return
        self.save(page, "notes", values, "Note")
