"""Notes: short texts with a title, searched, edited, pinned and deleted."""

from __future__ import annotations

import random

from envs.phone.app import App, Page, Row
from envs.phone.ui import Dialog, Node, Screen
from envs.phone.widgets import fab, field, icon_button, item, label, text_button
from envs.phone.words import NOTE_LINES, NOTE_TITLES


class Notes(App):
    package = "com.android.notes"
    label = "Notes"
    authority = "notes"
    icon = "note"
    color = "#F2B600"
    tables = {"notes": {"title": "", "body": "", "pinned": 0}}

    def populate(self, rng: random.Random) -> None:
        for title in rng.sample(NOTE_TITLES, 4):
            self.insert("notes", title=title, body=rng.choice(NOTE_LINES))

    def ordered(self) -> list[Row]:
        """Pinned notes first, then the newest."""
        return sorted(self.db["notes"], key=lambda r: (-r["pinned"], -r["_id"]))

    # --- pages -----------------------------------------------------------------------------------------------

    def page_main(self, page: Page) -> Screen:
        body = [self._row(note) for note in self.ordered()] or [label("No notes yet")]
        actions = [icon_button("search", "Search", lambda: self.go("search", focus="query"))]
        new = fab("plus", "New note", lambda: self.go("edit", focus="title"))
        return Screen("Notes", body, actions, fab=new)

    def _row(self, note: Row) -> Node:
        pin = [Node(cls="android.widget.ImageView", desc="Pinned", look="row_icon", icon="pin", width=28, height=28)]
        return item(
            note["title"],
            note["body"],
            on_tap=lambda: self.go("view", id=note["_id"]),
            trailing=pin if note["pinned"] else (),
        )

    def page_search(self, page: Page) -> Screen:
        query = page.fields.get("query", "").casefold().strip()
        hits = [n for n in self.ordered() if query and query in f"{n['title']} {n['body']}".casefold()]
        body = [field("query", "Search notes"), *(self._row(n) for n in hits)]
        return Screen("Search", body, on_up=self.up)

    def page_view(self, page: Page) -> Screen:
        note = self.get("notes", page.args["id"])
        if note is None:
            return Screen("Note", [label("This note was deleted")], on_up=self.up)
        pin = "Unpin" if note["pinned"] else "Pin"
        actions = [
            icon_button("pin", pin, lambda: note.update(pinned=1 - note["pinned"])),
            icon_button("edit", "Edit", lambda: self._edit(note)),
            icon_button("trash", "Delete", lambda: self.open_dialog("delete")),
        ]
        return Screen(note["title"], [label(note["body"], size=16)], actions, on_up=self.up)

    def page_edit(self, page: Page) -> Screen:
        body = [field("title", "Title"), field("body", "Note", lines=3)]
        return Screen("Edit note", body, [icon_button("check", "Save", lambda: self._save(page))], on_up=self.up)

    def dialog_delete(self, page: Page) -> Dialog:
        buttons = [text_button("Cancel", self.close_dialog), text_button("Delete", lambda: self._delete(page))]
        return Dialog("Delete note?", [label("It cannot be restored.")], buttons)

    # --- changes ---------------------------------------------------------------------------------------------

    def _edit(self, note: Row) -> None:
        self.go("edit", focus="title", fields={"title": note["title"], "body": note["body"]}, id=note["_id"])

    def _save(self, page: Page) -> None:
        values = {"title": page.fields["title"].strip(), "body": page.fields["body"].strip()}
        if not values["title"]:
            self.toast("A note needs a title")
            return
        note = self.get("notes", page.args.get("id", 0))
        if note is None:
            self.insert("notes", **values)
        else:
            note.update(values)
        self.up()
        self.toast("Note saved")

    def _delete(self, page: Page) -> None:
        self.close_dialog()
        self.remove("notes", page.args["id"])
        self.up()
        self.toast("Note deleted")
