"""Messages: conversations with contacts.

The one table has the columns of Android's `content://sms`: who it is with (`address`, a contact's name here), `body`,
`type` (1 received, 2 sent, 3 draft) and `read`.
"""

from __future__ import annotations

import random
from datetime import timedelta
from functools import partial
from math import ceil
from typing import Any

from mobilerl.envs.phone.app import App, Page, Row
from mobilerl.envs.phone.apps.people import full_name
from mobilerl.envs.phone.fonts import text_width
from mobilerl.envs.phone.languages.dates import short_day
from mobilerl.envs.phone.panes import ListDetail
from mobilerl.envs.phone.ui import TEXT, Dialog, Node, Screen
from mobilerl.envs.phone.widgets import fab, field, icon_button, item, label
from mobilerl.envs.phone.words import FIRST_NAMES, LAST_NAMES, MESSAGE_TEXTS

RECEIVED, SENT, DRAFT = 1, 2, 3
COUNT = 5
BUBBLE_WIDTH, BUBBLE_SIZE, BUBBLE_PAD = 260, 16, (14, 8)
DATE_WIDTH = 44
"""The least; a month in another language may be longer."""
DAY_MS = 86_400_000
END = 100_000
"""A scroll position past any conversation's end; laying out clamps it."""


class Messages(App):
    package = "com.android.messaging"
    label = "Messages"
    authority = "sms"
    icon = "message"
    color = "#188038"
    tables = {"messages": {"address": "", "body": "", "type": RECEIVED, "read": 1}}
    list_detail = ListDetail(("main", "pick"), ("thread",), "Select a conversation")

    def populate(self, rng: random.Random) -> None:
        """Read conversations of the last days with contacts (with anyone, on a phone without Contacts)."""
        names = self.contact_names()
        if len(names) < COUNT:
            names = [f"{first} {rng.choice(LAST_NAMES)}" for first in rng.sample(FIRST_NAMES, COUNT)]
        for days, name in zip(range(COUNT, 0, -1), rng.sample(names, COUNT), strict=True):
            texts, date = rng.sample(MESSAGE_TEXTS, 2), self.phone.unix_ms - days * DAY_MS
            self.insert("messages", address=name, body=texts[0], type=SENT, date=date)
            self.insert("messages", address=name, body=texts[1], date=date)

    def insert(self, table: str, **values: Any) -> Row:
        """Notes the time too, in milliseconds."""
        row = super().insert(table, **values)
        row.setdefault("date", self.phone.unix_ms)
        return row

    def contact_names(self) -> list[str]:
        contacts = self.phone.app("Contacts")
        return sorted({full_name(p) for p in contacts.db["people"]}) if contacts is not None else []

    def thread(self, address: str) -> list[Row]:
        """The sent and received messages of a conversation, oldest first."""
        rows = [r for r in self.db["messages"] if r["address"] == address and r["type"] != DRAFT]
        return sorted(rows, key=lambda r: r["_id"])

    def draft(self, address: str) -> Row | None:
        return next((r for r in self.db["messages"] if r["address"] == address and r["type"] == DRAFT), None)

    def page_main(self, page: Page) -> Screen:
        newest = {r["address"]: r for r in sorted(self.db["messages"], key=lambda r: r["_id"])}
        rows = sorted(newest.values(), key=lambda r: -r["_id"])
        body = [self._row(r) for r in rows] or [label(self.t("No messages yet"))]
        return Screen(self.t("Messages"), body, fab=fab("plus", self.t("New message"), lambda: self.go("pick")))

    def _row(self, last: Row) -> Node:
        address = last["address"]
        unread = any(not r["read"] for r in self.thread(address))
        new = self.t("New")
        badge = Node(cls=TEXT, text=new, look="text", size=13, bold=True, color=self.color, width=32, height=20)
        return item(
            address,
            self.t("Draft: {text}", text=last["body"]) if last["type"] == DRAFT else last["body"],
            on_tap=lambda: self.open_thread(address),
            avatar=address,
            trailing=[*([badge] if unread else []), self._when(last["date"])],
            selected=self.shown_beside(address=address),
        )

    def _when(self, date: Any) -> Node:
        """The time of today's messages, the day of others; nothing for a `date` over adb that is none."""
        now = self.phone.now
        try:
            sent = now - timedelta(milliseconds=self.phone.unix_ms - date)
        except (TypeError, OverflowError):
            text = ""
        else:
            text = f"{sent:%H:%M}" if sent.date() == now.date() else short_day(self.t, sent)
        width = max(DATE_WIDTH, ceil(text_width(text, 12)))
        return Node(cls=TEXT, text=text, look="subtext", size=12, width=width, height=18)

    def page_pick(self, page: Page) -> Screen:
        body = [item(name, avatar=name, on_tap=partial(self._start, name)) for name in self.contact_names()]
        return Screen(self.t("New message"), body or [label(self.t("No contacts yet"))], on_up=self.up)

    def _start(self, name: str) -> None:
        self.stack.pop()  # Back from the conversation leads to the list, not to the choice of a person.
        self.open_thread(name, write=True)

    def page_thread(self, page: Page) -> Screen:
        address = page.args["address"]
        send = icon_button("send", self.t("Send"), lambda: self._send(page))
        text = field("text", self.t("Text message"))
        text.look = "composer"
        compose = Node(axis="row", pad=(0, 4), gap=4, children=[text, send])
        body = [self._bubble(r) for r in self.thread(address)]
        actions = [icon_button("trash", self.t("Delete"), lambda: self.open_dialog("delete"))]
        return Screen(address, body, actions, on_up=self.up, footer=compose)

    def _bubble(self, message: Row) -> Node:
        """As wide as its text, up to three quarters of the screen; what was sent stands on the right."""
        sent = message["type"] == SENT
        bubble = Node(
            cls=TEXT,
            text=message["body"],
            look="bubble",
            size=BUBBLE_SIZE,
            pad=BUBBLE_PAD,
            width=BUBBLE_WIDTH,
            fit=True,
            color=self.color if sent else "",
        )
        free = Node(height=1)
        return Node(axis="row", pad=(16, 4), children=[free, bubble] if sent else [bubble, free])

    def dialog_delete(self, page: Page) -> Dialog:
        delete = partial(self._delete, page)
        return self.confirmation(self.t("Delete conversation?"), delete, text=self.t("It cannot be restored."))

    def open_thread(self, address: str, write: bool = False) -> None:
        """Shows a conversation at its end, with its draft in the field (focused to `write`); the unread is read."""
        for row in self.thread(address):
            row["read"] = 1
        draft = self.draft(address)
        text = draft["body"] if draft else ""
        self.go("thread", focus="text" if write else "", fields={"text": text}, address=address)
        self.page.scroll = END

    def start_message(self, address: str, text: str) -> None:
        """Opens a conversation with `text` ready to be sent, as another app asked."""
        self.stack = [Page("main")]
        self.open_thread(address, write=True)
        if text:
            self.page.fields["text"] = text

    def submit(self, page: Page, key: str) -> None:
        self._send(page)

    def _send(self, page: Page) -> None:
        text = page.fields["text"].strip()
        if not text:
            self.toast(self.t("Nothing to send"))
            return
        page.fields["text"] = ""
        self._keep_draft(page)
        self.insert("messages", address=page.args["address"], body=text, type=SENT)
        page.scroll = END

    def _keep_draft(self, page: Page) -> None:
        """Stores what is in the field as the conversation's only draft."""
        address, text = page.args["address"], page.fields.get("text", "").strip()
        old = self.draft(address)
        if old is not None and old["body"] != text:
            self.remove("messages", old["_id"])
        if text and (old is None or old["body"] != text):
            self.insert("messages", address=address, body=text, type=DRAFT)

    def leave(self, page: Page) -> None:
        if page.name == "thread":
            self._keep_draft(page)

    def _delete(self, page: Page) -> None:
        address = page.args["address"]
        page.fields["text"] = ""
        self.close_dialog()
        self.db["messages"] = [r for r in self.db["messages"] if r["address"] != address]
        self.up()
        self.toast(self.t("Conversation deleted"))
