"""Android's contacts provider on top of the app Contacts."""

from __future__ import annotations

from typing import Any

from envs.phone.app import Row
from envs.phone.apps.contacts import Contacts
from envs.phone.apps.people import full_name
from envs.phone.shell.table import Refused

NAME_TYPE, PHONE_TYPE, EMAIL_TYPE = (f"vnd.android.cursor.item/{n}" for n in ("name", "phone_v2", "email_v2"))


class People:
    """`raw_contacts` and `contacts` of `com.android.contacts`."""

    columns = (
        "_id",
        "contact_id",
        "display_name",
        "starred",
        "has_phone_number",
        "account_type",
        "account_name",
        "deleted",
        "lookup",
    )
    defaults: Row = {c: "" for c in ("display_name", "account_type", "account_name", "lookup")} | {
        c: 0 for c in ("_id", "contact_id", "starred", "has_phone_number", "deleted")
    }

    def __init__(self, app: Contacts) -> None:
        self.app = app

    def rows(self) -> list[Row]:
        return [
            {
                "_id": p["_id"],
                "contact_id": p["_id"],
                "display_name": full_name(p) or None,
                "starred": p["favourite"],
                "has_phone_number": int(bool(p["phone"])),
                "account_type": None,
                "account_name": None,
                "deleted": 0,
                "lookup": f"0r{p['_id']}",
            }
            for p in self.app.db["people"]
        ]

    def insert(self, values: Row) -> None:
        name = str(values.get("display_name", ""))
        self.app.insert("people", first=name.partition(" ")[0], last=name.partition(" ")[2])

    def update(self, row: Row, values: Row) -> None:
        if "starred" in values:
            self._person(row["_id"])["favourite"] = values["starred"]

    def delete(self, row: Row) -> None:
        self.app.remove("people", row["_id"])

    def _person(self, number: int) -> Row:
        person = self.app.get("people", number)
        if person is None:
            raise Refused(f"raw contact {number} does not exist")
        return person


class PeopleData(People):
    """`data` of `com.android.contacts`: a row for each name, number and address; `kinds` are the MIME types shown."""

    columns = ("_id", "raw_contact_id", "contact_id", "mimetype", "data1", "data2", "data3", "display_name", "number")
    defaults: Row = {c: "" for c in columns if c.startswith(("data", "mime", "disp", "num"))} | {
        c: 0 for c in ("_id", "raw_contact_id", "contact_id")
    }

    def __init__(self, app: Contacts, kinds: tuple[str, ...] = (NAME_TYPE, PHONE_TYPE, EMAIL_TYPE)) -> None:
        super().__init__(app)
        self.kinds = kinds

    def rows(self) -> list[Row]:
        found = []
        for person in self.app.db["people"]:
            for number, (kind, value, second, third) in enumerate(self._values(person)):
                if value and kind in self.kinds:
                    found.append(
                        {
                            "_id": 3 * person["_id"] - 2 + number,
                            "raw_contact_id": person["_id"],
                            "contact_id": person["_id"],
                            "mimetype": kind,
                            "data1": value,
                            "data2": second,
                            "data3": third,
                            "display_name": full_name(person),
                            "number": value,
                        }
                    )
        return found

    @staticmethod
    def _values(person: Row) -> list[tuple[str, str, Any, Any]]:
        return [
            (NAME_TYPE, full_name(person), person["first"], person["last"]),
            (PHONE_TYPE, person["phone"], 2, None),
            (EMAIL_TYPE, person["email"], 1, None),
        ]

    def insert(self, values: Row) -> None:
        self._write(self._person(values.get("raw_contact_id", 0)), str(values.get("mimetype", "")), values)

    def update(self, row: Row, values: Row) -> None:
        self._write(self._person(row["raw_contact_id"]), row["mimetype"], values)

    def delete(self, row: Row) -> None:
        self._write(self._person(row["raw_contact_id"]), row["mimetype"], {"data1": ""})

    @staticmethod
    def _write(person: Row, kind: str, values: Row) -> None:
        value = str(values.get("data1", ""))
        if kind == NAME_TYPE:
            first, _, last = value.partition(" ")
            person.update(first=str(values.get("data2", first)), last=str(values.get("data3", last)))
        elif kind in (PHONE_TYPE, EMAIL_TYPE):
            person["phone" if kind == PHONE_TYPE else "email"] = value
        else:
            raise Refused(f"data of type {kind!r}")
