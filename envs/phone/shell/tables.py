"""Android's providers of messages, calls, settings and media, and which table a content URI means."""

from __future__ import annotations

from collections.abc import Callable

from envs.phone.app import Row
from envs.phone.apps.contacts import Contacts
from envs.phone.apps.messages import DRAFT, RECEIVED, SENT, Messages
from envs.phone.phone import Phone
from envs.phone.shell.people_tables import EMAIL_TYPE, PHONE_TYPE, People, PeopleData
from envs.phone.shell.table import AppTable, Prefs, Refused, Table

PREFS = "prefs"


class Sms:
    """`content://sms` and its boxes, with Android's columns."""

    columns = (
        "_id",
        "thread_id",
        "address",
        "person",
        "date",
        "date_sent",
        "protocol",
        "read",
        "status",
        "type",
        "reply_path_present",
        "subject",
        "body",
        "service_center",
        "locked",
        "error_code",
        "seen",
    )
    defaults: Row = {c: "" for c in ("address", "body", "subject", "service_center")} | {
        c: 0 for c in columns if c not in ("address", "body", "subject", "service_center")
    }

    def __init__(self, app: Messages, kind: int | None) -> None:
        self.app, self.kind = app, kind

    def rows(self) -> list[Row]:
        """Newest first, as the provider sorts them."""
        messages = self.app.db["messages"]
        threads = {address: i for i, address in enumerate(dict.fromkeys(r["address"] for r in messages), 1)}
        chosen = [r for r in messages if self.kind in (None, r["type"])]
        return [self._row(r, threads[r["address"]]) for r in sorted(chosen, key=lambda r: (-r["date"], -r["_id"]))]

    def _row(self, row: Row, thread: int) -> Row:
        sent = row["type"] == SENT
        return {
            "_id": row["_id"],
            "thread_id": thread,
            "address": row["address"],
            "person": None,
            "date": row["date"],
            "date_sent": 0 if sent else row["date"],
            "protocol": None if sent else 0,
            "read": row["read"],
            "status": -1,
            "type": row["type"],
            "reply_path_present": None if sent else 0,
            "subject": None,
            "body": row["body"],
            "service_center": None,
            "locked": 0,
            "error_code": -1,
            "seen": 1,
        }

    def insert(self, values: Row) -> None:
        kept = {k: v for k, v in values.items() if k in ("address", "body", "type", "read", "date")}
        self.app.insert("messages", **{"type": self.kind or RECEIVED, **kept})

    def update(self, row: Row, values: Row) -> None:
        kept = self.app.get("messages", row["_id"])
        if kept is not None:
            kept.update({k: v for k, v in values.items() if k in kept})

    def delete(self, row: Row) -> None:
        self.app.remove("messages", row["_id"])


class Calls:
    """The call log."""

    columns = ("_id", "number", "date", "duration", "type", "name", "new")
    defaults: Row = {"_id": 0, "number": "", "date": 0, "duration": 0, "type": 1, "name": "", "new": 1}

    def __init__(self, phone: Phone) -> None:
        self.phone = phone

    def rows(self) -> list[Row]:
        return self.phone.calls

    def insert(self, values: Row) -> None:
        number = 1 + max((r["_id"] for r in self.phone.calls), default=0)
        row = {**self.defaults, "name": None, "date": self.phone.unix_ms, "_id": number}
        self.phone.calls.append(row | values)

    def update(self, row: Row, values: Row) -> None:
        row.update(values)

    def delete(self, row: Row) -> None:
        self.phone.calls = [r for r in self.phone.calls if r is not row]


class SettingsTable:
    """One namespace of the settings: `content://settings/system`."""

    columns = ("_id", "name", "value")
    defaults: Row = {"_id": 0, "name": "", "value": ""}

    def __init__(self, phone: Phone, space: str) -> None:
        self.phone, self.space = phone, space

    def rows(self) -> list[Row]:
        table = self.phone.settings[self.space]
        return [{"_id": i, "name": name, "value": value} for i, (name, value) in enumerate(table.items(), 1)]

    def insert(self, values: Row) -> None:
        if "name" not in values or "value" not in values:
            raise Refused("insert without a name and a value")
        self.phone.settings[self.space][str(values["name"])] = str(values["value"])

    def update(self, row: Row, values: Row) -> None:
        self.phone.settings[self.space][row["name"]] = str(values.get("value", row["value"]))

    def delete(self, row: Row) -> None:
        del self.phone.settings[self.space][row["name"]]


class Media:
    """Files below a folder of shared storage, as the media provider lists them."""

    columns = ("_id", "_data", "_display_name", "_size")
    defaults: Row = {"_id": 0, "_data": "", "_display_name": "", "_size": 0}

    def __init__(self, phone: Phone, folders: tuple[str, ...]) -> None:
        self.phone, self.folders = phone, folders

    def rows(self) -> list[Row]:
        inside = tuple(f"/sdcard/{f}/" for f in self.folders)
        names = sorted(n for n in self.phone.files if n.startswith(inside) and not n.endswith("/"))
        return [
            {
                "_id": i,
                "_data": "/storage/emulated/0" + n.removeprefix("/sdcard"),
                "_display_name": n.rpartition("/")[2],
                "_size": len(self.phone.files[n]),
            }
            for i, n in enumerate(names, 1)
        ]

    def insert(self, values: Row) -> None:
        raise Refused("insert")

    def update(self, row: Row, values: Row) -> None:
        raise Refused("update")

    def delete(self, row: Row) -> None:
        self.phone.files.pop("/sdcard" + row["_data"].removeprefix("/storage/emulated/0"), None)


_MEDIA = {
    "downloads": ("Download",),
    "images/media": ("DCIM", "Pictures"),
    "video/media": ("Movies", "DCIM"),
    "audio/media": ("Music",),
    "file": ("DCIM", "Download", "Movies", "Music", "Pictures"),
}


def system_table(phone: Phone, authority: str, path: str) -> Table | None:
    """The table of one of Android's own providers at `content://AUTHORITY/PATH`; None where there is none."""
    messages, contacts = phone.apps.get(Messages.package), phone.apps.get(Contacts.package)
    makers: dict[tuple[str, str], Callable[[], Table]] = {("call_log", "calls"): lambda: Calls(phone)}
    if isinstance(messages, Messages):
        boxes = {"": None, "inbox": RECEIVED, "sent": SENT, "draft": DRAFT}
        makers |= {("sms", box): _sms(messages, kind) for box, kind in boxes.items()}
    if isinstance(contacts, Contacts):
        for start in ("com.android.contacts", "contacts"):
            makers |= {
                (start, "raw_contacts"): lambda: People(contacts),
                (start, "contacts"): lambda: People(contacts),
                (start, "data"): lambda: PeopleData(contacts),
                (start, "data/phones"): lambda: PeopleData(contacts, (PHONE_TYPE,)),
                (start, "phones"): lambda: PeopleData(contacts, (PHONE_TYPE,)),
                (start, "data/emails"): lambda: PeopleData(contacts, (EMAIL_TYPE,)),
            }
    if authority == "settings" and path in phone.settings:
        return SettingsTable(phone, path)
    if authority == "media" and path.removeprefix("external/") in _MEDIA:
        return Media(phone, _MEDIA[path.removeprefix("external/")])
    maker = makers.get((authority, path))
    return maker() if maker is not None else None


def _sms(app: Messages, kind: int | None) -> Callable[[], Table]:
    return lambda: Sms(app, kind)


def app_table(phone: Phone, authority: str, path: str) -> Table | None:
    """The table of an app at `content://AUTHORITY/TABLE`."""
    app = next((a for a in phone.apps.values() if a.authority == authority), None)
    if app is None:
        return None
    if path == PREFS:
        return Prefs(app)
    return AppTable(app, path) if path in app.db else None


def known_authorities(phone: Phone) -> set[str]:
    return {a.authority for a in phone.apps.values()} | {
        "sms",
        "com.android.contacts",
        "contacts",
        "call_log",
        "settings",
        "media",
    }
