"""`content`: the tables of the apps as content providers."""

from __future__ import annotations

import re
from typing import Any

from envs.phone.app import App, Row
from envs.phone.phone import Phone
from envs.phone.shell.command import Failure, Handler, option

PREFS = "prefs"
_WHERE = re.compile(r"""\s*([A-Za-z_]\w*)\s*=\s*(?:'((?:[^']|'')*)'|"([^"]*)"|(-?[\w.+-]+))\s*""")
_AND = re.compile(r"\s*and\s+", re.IGNORECASE)


def run(phone: Phone, words: list[str]) -> str:
    verbs = {"query": _query, "insert": _insert, "update": _update, "delete": _delete}
    if not words or words[0] not in verbs:
        raise Failure("[ERROR] Unsupported operation: " + " ".join(words[:1]), 255)
    app, table, row_id = _locate(phone, option(words, "--uri"))
    return verbs[words[0]](phone, app, table, row_id, words[1:])


def _locate(phone: Phone, uri: str) -> tuple[App, str, int | None]:
    """`content://authority/table[/id]`."""
    authority, _, path = uri.removeprefix("content://").partition("/")
    app = next((a for a in phone.apps.values() if a.authority == authority), None)
    table, _, row_id = path.partition("/")
    if not uri.startswith("content://") or app is None:
        raise Failure(f"Error while accessing provider:{authority}\njava.lang.IllegalStateException: Could not find "
                      f"provider: {authority}", 1)  # fmt: skip
    if table not in app.db and table != PREFS or not (row_id == "" or row_id.isdecimal()):
        raise Failure(f"Error while accessing provider:{authority}\njava.lang.IllegalArgumentException: Unknown URL "
                      f"{uri}", 1)  # fmt: skip
    return app, table, int(row_id) if row_id else None


def _selected(app: App, table: str, row_id: int | None, words: list[str]) -> list[Row]:
    if table == PREFS:
        return [app.prefs]
    conditions = _conditions(option(words, "--where"))
    known = {"_id", *app.tables[table]}
    for column, _ in conditions:
        if column not in known:
            raise Failure(f"android.database.sqlite.SQLiteException: no such column: {column}", 1)
    rows = app.db[table] if row_id is None else [r for r in app.db[table] if r["_id"] == row_id]
    return [r for r in rows if all(_equal(r[column], value) for column, value in conditions)]


def _conditions(where: str) -> list[tuple[str, str]]:
    """`col='text' AND other=3` as pairs."""
    found, position = [], 0
    while where and position <= len(where):
        match = _WHERE.match(where, position)
        if match is None:
            raise Failure(f"android.database.sqlite.SQLiteException: near \"{where[position:]}\": syntax error", 1)
        column, single, double, bare = match.groups()
        found.append((column, single.replace("''", "'") if single is not None else double if bare is None else bare))
        if match.end() == len(where):
            break
        joint = _AND.match(where, match.end())
        if joint is None:
            raise Failure(f"android.database.sqlite.SQLiteException: near \"{where[match.end():]}\": syntax error", 1)
        position = joint.end()
    return found


def _equal(value: Any, wanted: str) -> bool:
    if isinstance(value, str):
        return value == wanted
    try:
        return float(value) == float(wanted)
    except ValueError:
        return False


def _query(phone: Phone, app: App, table: str, row_id: int | None, words: list[str]) -> str:
    rows = _selected(app, table, row_id, words)
    chosen = option(words, "--projection")
    names = chosen.split(":") if chosen else list(app.prefs) if table == PREFS else ["_id", *app.tables[table]]
    lines = []
    for i, row in enumerate(_sorted(rows, option(words, "--sort"))):
        if missing := [n for n in names if n not in row]:
            raise Failure(f"android.database.sqlite.SQLiteException: no such column: {missing[0]}", 1)
        lines.append(f"Row: {i} " + ", ".join(f"{n}={_shown(row[n])}" for n in names) + "\n")
    return "".join(lines) or "No result found.\n"


def _sorted(rows: list[Row], order: str) -> list[Row]:
    column, _, direction = order.strip().partition(" ")
    if not column:
        return rows
    if rows and column not in rows[0]:
        raise Failure(f"android.database.sqlite.SQLiteException: no such column: {column}", 1)
    return sorted(rows, key=lambda r: r[column], reverse=direction.strip().upper() == "DESC")


def _shown(value: Any) -> str:
    return "NULL" if value is None else str(value)


def _insert(phone: Phone, app: App, table: str, row_id: int | None, words: list[str]) -> str:
    if table == PREFS or row_id is not None:
        raise Failure("java.lang.UnsupportedOperationException: insert", 1)
    app.insert(table, **_bindings(app, table, words))
    phone.changed()
    return ""


def _update(phone: Phone, app: App, table: str, row_id: int | None, words: list[str]) -> str:
    values = _bindings(app, table, words)
    for row in _selected(app, table, row_id, words):
        row.update(values)
    phone.changed()
    return ""


def _delete(phone: Phone, app: App, table: str, row_id: int | None, words: list[str]) -> str:
    if table == PREFS:
        raise Failure("java.lang.UnsupportedOperationException: delete", 1)
    gone = {r["_id"] for r in _selected(app, table, row_id, words)}
    app.db[table] = [r for r in app.db[table] if r["_id"] not in gone]
    phone.changed()
    return ""


def _bindings(app: App, table: str, words: list[str]) -> Row:
    """`--bind column:type:value`, once per column; types s(tring), i(nteger), l(ong), d(ouble), f(loat), b(oolean)."""
    kinds = {"s": str, "i": int, "l": int, "d": float, "f": float, "b": lambda v: int(v == "true")}
    known = app.prefs if table == PREFS else {"_id": 0, **app.tables[table]}
    values: Row = {}
    for i, word in enumerate(words[:-1]):
        if word != "--bind":
            continue
        column, kind, value = (words[i + 1].split(":", 2) + ["", ""])[:3]
        if kind not in kinds:
            raise Failure(f"[ERROR] Unsupported type: {kind}", 255)
        if column not in known:
            raise Failure(f"android.database.sqlite.SQLiteException: table {table} has no column named {column}", 1)
        try:
            values[column] = kinds[kind](value)
        except ValueError:
            raise Failure(f"[ERROR] not a number: {value}", 255) from None
    if not values:
        raise Failure("[ERROR] Binding not specified", 255)
    return values


COMMANDS: dict[str, Handler] = {"content": run}
