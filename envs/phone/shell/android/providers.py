"""`content`: access by URI to the tables of the apps and of Android's own providers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mobilerl.envs.phone.app import Row
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell.android.tables import Refused, Table, authorities, find_table
from mobilerl.envs.phone.shell.command import Failure, Handler, option

_CONDITION = r"""\s*([A-Za-z_]\w*)\s*=\s*(?:'([^']*)'|(-?[\w.+-]+))\s*"""
_WHERE = re.compile(_CONDITION)
_ALL = re.compile(f"{_CONDITION}(?:and{_CONDITION})*", re.IGNORECASE)
_SQL = "android.database.sqlite.SQLiteException: "
_KINDS: dict[str, Callable[[str], Any]] = {
    "s": str,
    "i": int,
    "l": int,
    "d": float,
    "f": float,
    "b": lambda v: int(v == "true"),
    "n": lambda v: None,
}


def content(phone: Phone, words: list[str]) -> str:
    verb = words[0] if words else ""
    if verb not in ("query", "insert", "update", "delete"):
        raise Failure(f"[ERROR] Unsupported operation: {verb}", 255)
    table, row_id = _locate(phone, option(words, "--uri"))
    if verb == "query":
        return _query(table, _select_rows(table, row_id, words), words)
    try:
        if verb == "insert":
            if row_id is not None:
                raise Refused
            table.insert(_bindings(table, words))
        elif verb == "update":
            values = _bindings(table, words)
            for row in _select_rows(table, row_id, words):
                table.update(row, values)
        else:
            for row in _select_rows(table, row_id, words):
                table.delete(row)
    except Refused as refused:
        raise Failure(f"java.lang.UnsupportedOperationException: {refused or verb}", 1) from None
    phone.invalidate()
    return ""


def _locate(phone: Phone, uri: str) -> tuple[Table, int | None]:
    """The table and row id of `content://authority/table[/id]`."""
    authority, _, path = uri.removeprefix("content://").partition("/")
    path = path.rstrip("/")
    failed = f"Error while accessing provider:{authority}\njava.lang."
    if not uri.startswith("content://") or authority not in authorities(phone):
        raise Failure(f"{failed}IllegalStateException: Could not find provider: {authority}", 1)
    before, _, last = path.rpartition("/")
    for place, row_id in ((path, None), (before, last)):
        table = find_table(phone, authority, place)
        if table is not None and (row_id is None or row_id.isdecimal()):
            return table, int(row_id) if row_id else None
    raise Failure(f"{failed}IllegalArgumentException: Unknown URL {uri}", 1)


def _select_rows(table: Table, row_id: int | None, words: list[str]) -> list[Row]:
    if "_id" not in table.columns:  # `prefs`, which has one row
        return table.rows()
    conditions = _conditions(option(words, "--where"))
    for column, _ in conditions:
        if column not in table.columns:
            raise Failure(f"{_SQL}no such column: {column}", 1)
    rows = [r for r in table.rows() if row_id is None or r.get("_id") == row_id]
    return [r for r in rows if all(_equal(r[column], value) for column, value in conditions)]


def _conditions(where: str) -> list[tuple[str, str]]:
    """Parses `col='text' AND other=3` into pairs."""
    if where and not _ALL.fullmatch(where):
        raise Failure(f'{_SQL}near "{where}": syntax error', 1)
    return [(column, text or bare) for column, text, bare in _WHERE.findall(where)]


def _equal(value: Any, wanted: str) -> bool:
    if value is None or isinstance(value, str):
        return value == wanted
    try:
        return float(value) == float(wanted)
    except ValueError:
        return False


def _query(table: Table, rows: list[Row], words: list[str]) -> str:
    chosen = option(words, "--projection")
    names = chosen.split(":") if chosen else list(table.columns)
    for name in names:
        if rows and name not in rows[0]:
            raise Failure(f"{_SQL}no such column: {name}", 1)
    lines = [
        f"Row: {i} " + ", ".join(f"{n}={'NULL' if row[n] is None else row[n]}" for n in names) + "\n"
        for i, row in enumerate(rows)
    ]
    return "".join(lines) or "No result found.\n"


def _bindings(table: Table, words: list[str]) -> Row:
    """Parses `--bind column:type:value` options. Types: s(tring), i(nteger), l(ong), d(ouble), f(loat), b(oolean)."""
    values: Row = {}
    for bind in (words[i + 1] for i, word in enumerate(words[:-1]) if word == "--bind"):
        column, kind, value = (bind.split(":", 2) + ["", ""])[:3]
        if kind not in _KINDS:
            raise Failure(f"[ERROR] Unsupported type: {kind}", 255)
        if column not in table.columns:
            raise Failure(f"{_SQL}the table has no column named {column}", 1)
        try:
            values[column] = _KINDS[kind](value)
        except ValueError:
            raise Failure(f"[ERROR] not a number: {value}", 255) from None
    if not values:
        raise Failure("[ERROR] Binding not specified", 255)
    return values


COMMANDS: dict[str, Handler] = {"content": content}
