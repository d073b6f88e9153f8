"""The tables of content providers: the apps' own, and Android's contacts, messages, calls, settings and media."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from envs.phone.app import App, Row
from envs.phone.apps.contacts import Contacts
from envs.phone.apps.messages import DRAFT, RECEIVED, SENT, Messages
from envs.phone.apps.people import full_name
from envs.phone.phone import Phone


class Refused(Exception):
    """An operation that the provider does not have."""


def _refuse(*arguments: object) -> None:
    raise Refused


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `columns` are shown by a query without a projection; `rows` returns copies or the rows themselves."""

    columns: tuple[str, ...]
    rows: Callable[[], list[Row]]
    insert: Callable[[Row], object] = _refuse
    update: Callable[[Row, Row], object] = _refuse
    delete: Callable[[Row], object] = _refuse


def _app_table(app: App, name: str) -> Table:
    """A table of an app, or `prefs`, the one row of its single values."""
    if name == "prefs":
        return Table(tuple(app.prefs), lambda: [app.prefs], update=dict.update)
    return Table(
        ("_id", *app.tables[name]),
        lambda: app.db[name],
        lambda values: app.insert(name, **values),
        dict.update,
        lambda row: app.remove(name, row["_id"]),
    )


# --- contacts ------------------------------------------------------------------------------------------------------

NAME_TYPE, PHONE_TYPE, EMAIL_TYPE = (f"vnd.android.cursor.item/{n}" for n in ("name", "phone_v2", "email_v2"))
_PEOPLE = tuple("_id contact_id display_name starred has_phone_number account_type account_name deleted lookup".split())
_DATA = tuple("_id raw_contact_id contact_id mimetype data1 data2 data3 display_name number".split())


def _person(app: Contacts, number: int) -> Row:
    person = app.get("people", number)
    if person is None:
        raise Refused(f"raw contact {number} does not exist")
    return person


def _people(app: Contacts) -> Table:
    """`raw_contacts` and `contacts`."""

    def rows() -> list[Row]:
        people = app.db["people"]
        fields = [(p["_id"], full_name(p) or None, p["favourite"], int(bool(p["phone"]))) for p in people]
        return [
            dict(zip(_PEOPLE, (i, i, name, starred, called, None, None, 0, f"0r{i}"), strict=True))
            for i, name, starred, called in fields
        ]

    def insert(values: Row) -> None:
        first, _, last = str(values.get("display_name", "")).partition(" ")
        app.insert("people", first=first, last=last)

    def update(row: Row, values: Row) -> None:
        _person(app, row["_id"])["favourite"] = values.get("starred", row["starred"])

    return Table(_PEOPLE, rows, insert, update, lambda row: app.remove("people", row["_id"]))


def _people_data(app: Contacts, *kinds: str) -> Table:
    """`data`: a row for each name, number and address; `kinds` are the MIME types shown."""

    def rows() -> list[Row]:
        found = []
        for p in app.db["people"]:
            name = full_name(p)
            values = [(NAME_TYPE, name, p["first"], p["last"])]
            values += [(PHONE_TYPE, p["phone"], 2, None), (EMAIL_TYPE, p["email"], 1, None)]
            for number, (kind, value, second, third) in enumerate(values):
                row = (3 * p["_id"] - 2 + number, p["_id"], p["_id"], kind, value, second, third, name, value)
                if value and kind in kinds:
                    found.append(dict(zip(_DATA, row, strict=True)))
        return found

    def write(row: Row, values: Row) -> None:
        person, kind, value = _person(app, row["raw_contact_id"]), row["mimetype"], str(values.get("data1", ""))
        if kind == NAME_TYPE:
            first, _, last = value.partition(" ")
            person.update(first=str(values.get("data2", first)), last=str(values.get("data3", last)))
        elif kind in (PHONE_TYPE, EMAIL_TYPE):
            person["phone" if kind == PHONE_TYPE else "email"] = value
        else:
            raise Refused(f"data of type {kind!r}")

    def insert(values: Row) -> None:
        write({"raw_contact_id": 0, "mimetype": "", **values}, values)

    return Table(_DATA, rows, insert, write, lambda row: write(row, {"data1": ""}))


# --- messages, calls, settings, media --------------------------------------------------------------------------------

_SMS = tuple(
    "_id thread_id address person date date_sent protocol read status type reply_path_present subject body "
    "service_center locked error_code seen".split()
)


def _sms(app: Messages, kind: int | None) -> Table:
    """`content://sms` and its boxes, newest first."""

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

    def insert(values: Row) -> None:
        kept = {k: v for k, v in values.items() if k in ("address", "body", "type", "read", "date")}
        app.insert("messages", **{"type": kind or RECEIVED, **kept})

    def update(row: Row, values: Row) -> None:
        message = app.get("messages", row["_id"]) or {}
        message.update({k: v for k, v in values.items() if k in message})

    return Table(_SMS, rows, insert, update, lambda row: app.remove("messages", row["_id"]))


def _calls(phone: Phone) -> Table:
    columns = ("_id", "number", "date", "duration", "type", "name", "new")

    def insert(values: Row) -> None:
        number = 1 + max((r["_id"] for r in phone.calls), default=0)
        defaults = (number, "", phone.unix_ms, 0, 1, None, 1)
        phone.calls.append(dict(zip(columns, defaults, strict=True)) | values)

    return Table(columns, lambda: list(phone.calls), insert, dict.update, phone.calls.remove)


def _settings(phone: Phone, space: str) -> Table:
    """One namespace of the settings: `content://settings/system`."""
    settings = phone.settings[space]

    def put(values: Row) -> None:
        if "name" not in values or "value" not in values:
            raise Refused("insert without a name and a value")
        settings[str(values["name"])] = str(values["value"])

    return Table(
        ("_id", "name", "value"),
        lambda: [{"_id": i, "name": name, "value": settings[name]} for i, name in enumerate(settings, 1)],
        put,
        lambda row, values: put({**row, "value": values.get("value", row["value"])}),
        lambda row: settings.pop(row["name"]),
    )


_MEDIA = {
    "downloads": ("Download",),
    "images/media": ("DCIM", "Pictures"),
    "video/media": ("Movies", "DCIM"),
    "audio/media": ("Music",),
    "file": ("DCIM", "Download", "Movies", "Music", "Pictures"),
}


def _media(phone: Phone, path: str) -> Table:
    """Files below folders of shared storage, as the media provider lists them."""
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
    system = ("sms", "com.android.contacts", "contacts", "call_log", "settings", "media")
    return {*(a.authority for a in phone.apps.values()), *system}


def find_table(phone: Phone, authority: str, path: str) -> Table | None:
    """The table at `content://AUTHORITY/PATH`; None where there is none."""
    app = next((a for a in phone.apps.values() if a.authority == authority), None)
    if app is not None and (path == "prefs" or path in app.db):
        return _app_table(app, path)
    if authority == "settings" and path in phone.settings:
        return _settings(phone, path)
    if authority == "media" and path.removeprefix("external/") in _MEDIA:
        return _media(phone, path.removeprefix("external/"))
    tables = {"call_log/calls": _calls(phone)}
    messages, contacts = phone.apps.get(Messages.package), phone.apps.get(Contacts.package)
    if isinstance(messages, Messages):
        boxes = {"": None, "inbox": RECEIVED, "sent": SENT, "draft": DRAFT}
        tables |= {f"sms/{box}": _sms(messages, kind) for box, kind in boxes.items()}
    if isinstance(contacts, Contacts):
        tables |= dict.fromkeys(("contacts/raw_contacts", "contacts/contacts"), _people(contacts))
        tables |= dict.fromkeys(("contacts/data/phones", "contacts/phones"), _people_data(contacts, PHONE_TYPE))
        tables["contacts/data"] = _people_data(contacts, NAME_TYPE, PHONE_TYPE, EMAIL_TYPE)
        tables["contacts/data/emails"] = _people_data(contacts, EMAIL_TYPE)
    return tables.get(f"{authority.removeprefix('com.android.')}/{path}")
