"""Tables of content providers: those of the apps, and Android's contacts, messages, calls, settings and media."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mobilerl.envs.phone.app import App, Row
from mobilerl.envs.phone.apps.contacts import Contacts
from mobilerl.envs.phone.apps.messages import DRAFT, RECEIVED, SENT, Messages
from mobilerl.envs.phone.apps.people import full_name
from mobilerl.envs.phone.phone import Phone


class Refused(Exception):
    """The provider does not support the operation."""


def _refuse(*arguments: object) -> None:
    raise Refused


@dataclass(frozen=True, slots=True)
class Table:
    """A table. A query without a projection shows `columns`; `rows` returns the rows or copies of them."""

    columns: tuple[str, ...]
    rows: Callable[[], list[Row]]
    insert: Callable[[Row], object] = _refuse
    update: Callable[[Row, Row], object] = _refuse
    delete: Callable[[Row], object] = _refuse


def _app_table(app: App, name: str) -> Table:
    """A table of an app, or `prefs`, a single row with its preferences."""
    if name == "prefs":
        return Table(tuple(app.prefs), lambda: [app.prefs], update=dict.update)
    return Table(
        ("_id", *app.tables[name]),
        lambda: app.db[name],
        lambda values: app.insert(name, **values),
        dict.update,
        lambda row: app.remove(name, row["_id"]),
    )


# --- Android's own -------------------------------------------------------------------------------------------------


def _phones(app: Contacts) -> Table:
    """`contacts/phones`: people with a phone number."""
    columns = ("_id", "contact_id", "display_name", "number")
    people = [p for p in app.db["people"] if p["phone"]]
    return Table(
        columns,
        lambda: [dict(zip(columns, (p["_id"], p["_id"], full_name(p), p["phone"]), strict=True)) for p in people],
    )


_SMS = tuple(
    "_id thread_id address person date date_sent protocol read status type reply_path_present subject body "
    "service_center locked error_code seen".split()
)


def _sms(app: Messages, kind: int | None) -> Table:
    """`content://sms` and its mailboxes, newest first."""

    def rows() -> list[Row]:
        messages = app.db["messages"]
        threads = {address: i for i, address in enumerate(dict.fromkeys(r["address"] for r in messages), 1)}
        found = []
        for row in sorted(messages, key=lambda r: (-r["date"], -r["_id"])):
            sent = row["type"] == SENT
            values = {
                **{"thread_id": threads[row["address"]], "date_sent": 0 if sent else row["date"], "status": -1},
                **{"protocol": None if sent else 0, "reply_path_present": None if sent else 0},
                **{"locked": 0, "error_code": -1, "seen": 1, **row},
            }
            if kind in (None, row["type"]):
                found.append({column: values.get(column) for column in _SMS})
        return found

    return Table(_SMS, rows, delete=lambda row: app.remove("messages", row["_id"]))


def _calls(phone: Phone) -> Table:
    columns = ("_id", "number", "date", "duration", "type", "name", "new")
    return Table(columns, lambda: list(phone.calls), delete=phone.calls.remove)


_MEDIA = {
    "downloads": ("Download",),
    "images/media": ("DCIM", "Pictures"),
    "video/media": ("Movies", "DCIM"),
    "audio/media": ("Music",),
    "file": ("DCIM", "Download", "Movies", "Music", "Pictures"),
}


def _media(phone: Phone, path: str) -> Table:
    """Files in folders of the shared storage, as the media provider lists them."""
    folders = tuple(f"/sdcard/{folder}/" for folder in _MEDIA[path])
    shared = "/storage/emulated/0"
    columns = ("_id", "_data", "_display_name", "_size")

    def rows() -> list[Row]:
        names = sorted(n for n in phone.files if n.startswith(folders) and not n.endswith("/"))
        fields = [(shared + n.removeprefix("/sdcard"), n.rpartition("/")[2], len(phone.files[n])) for n in names]
        return [dict(zip(columns, (i, *field), strict=True)) for i, field in enumerate(fields, 1)]

    return Table(columns, rows, delete=lambda row: phone.files.pop("/sdcard" + row["_data"].removeprefix(shared)))


# --- finding a table -----------------------------------------------------------------------------------------------


def authorities(phone: Phone) -> set[str]:
    """The authorities of all providers."""
    return {*(a.authority for a in phone.apps.values()), "sms", "com.android.contacts", "contacts", "call_log", "media"}


def find_table(phone: Phone, authority: str, path: str) -> Table | None:
    """The table at `content://AUTHORITY/PATH`, or None."""
    app = next((a for a in phone.apps.values() if a.authority == authority), None)
    if app is not None and (path == "prefs" or path in app.db):
        return _app_table(app, path)
    if authority == "media" and path.removeprefix("external/") in _MEDIA:
        return _media(phone, path.removeprefix("external/"))
    messages, contacts = phone.apps.get(Messages.package), phone.apps.get(Contacts.package)
    boxes = {"": None, "inbox": RECEIVED, "sent": SENT, "draft": DRAFT}
    match authority.removeprefix("com.android."), path:
        case "call_log", "calls":
            return _calls(phone)
        case "sms", box if box in boxes and isinstance(messages, Messages):
            return _sms(messages, boxes[box])
        case "contacts", "phones" | "data/phones" if isinstance(contacts, Contacts):
            return _phones(contacts)
    return None
