"""`content`: the tables of the apps and of Android's own providers, by URI."""

from __future__ import annotations

import re
from typing import Any

from envs.phone.app import Row
from envs.phone.phone import Phone
from envs.phone.shell.command import Failure, Handler, option
from envs.phone.shell.table import Prefs, Refused, Table
from envs.phone.shell.tables import app_table, known_authorities, system_table

_WHERE = re.compile(r"""\s*([A-Za-z_]\w*)\s*=\s*(?:'((?:[^']|'')*)'|"([^"]*)"|(-?[\w.+-]+))\s*""")
_AND = re.compile(r"\s*and\s+", re.IGNORECASE)
_SQL = "android.database.sqlite.SQLiteException: "


def run(phone: Phone, words: list[str]) -> str:
    verbs = {"query": _query, "insert": _insert, "update": _update, "delete": _delete}
    if "--user" in words:
        at = words.index("--user")
        words = words[:at] + words[at + 2 :]
    if not words or words[0] not in verbs:
        raise Failure("[ERROR] Unsupported operation: " + " ".join(words[:1]), 255)
    table, row_id = _locate(phone, option(words, "--uri"))
    try:
        said = verbs[words[0]](table, row_id, words[1:])
    except Refused as refused:
        raise Failure(f"java.lang.UnsupportedOperationException: {refused}", 1) from None
    if words[0] != "query":
        phone.changed()
    return said


def _locate(phone: Phone, uri: str) -> tuple[Table, int | None]:
    """`content://authority/table[/id]`."""
    authority, _, path = uri.removeprefix("content://").partition("/")
    path = path.rstrip("/")
    if not uri.startswith("content://") or authority not in known_authorities(phone):
        raise Failure(
            f"Error while accessing provider:{authority}\njava.lang.IllegalStateException: Could not find "
            f"provider: {authority}",
            1,
        )
    before, _, last = path.rpartition("/")
    for place, row_id in ((path, None), (before, last)):
        table = app_table(phone, authority, place) or system_table(phone, authority, place)
        if table is not None and (row_id is None or row_id.isdecimal()):
            return table, int(row_id) if row_id else None
    raise Failure(
        f"Error while accessing provider:{authority}\njava.lang.IllegalArgumentException: Unknown URL {uri}", 1
    )


def _selected(table: Table, row_id: int | None, words: list[str]) -> list[Row]:
    if isinstance(table, Prefs):
        return table.rows()
    conditions = _conditions(option(words, "--where"))
    for column, _ in conditions:
        if column not in table.defaults:
            raise Failure(f"{_SQL}no such column: {column}", 1)
    rows = [r for r in table.rows() if row_id is None or r.get("_id") == row_id]
    return [r for r in rows if all(_equal(r[column], value) for column, value in conditions)]


def _conditions(where: str) -> list[tuple[str, str]]:
    """`col='text' AND other=3` as pairs."""
    found, position = [], 0
    while where and position <= len(where):
        match = _WHERE.match(where, position)
        if match is None:
            raise Failure(f'android.database.sqlite.SQLiteException: near "{where[position:]}": syntax error', 1)
        column, single, double, bare = match.groups()
        found.append((column, single.replace("''", "'") if single is not None else double if bare is None else bare))
        if match.end() == len(where):
            break
        joint = _AND.match(where, match.end())
        if joint is None:
            raise Failure(f'android.database.sqlite.SQLiteException: near "{where[match.end() :]}": syntax error', 1)
        position = joint.end()
    return found


def _equal(value: Any, wanted: str) -> bool:
    if value is None or isinstance(value, str):
        return value == wanted
    try:
        return float(value) == float(wanted)
    except ValueError:
        return False


def _query(table: Table, row_id: int | None, words: list[str]) -> str:
    rows = _selected(table, row_id, words)
    chosen = option(words, "--projection")
    names = chosen.split(":") if chosen else list(table.columns)
    lines = []
    for i, row in enumerate(_sorted(rows, option(words, "--sort"))):
        if missing := [n for n in names if n not in row]:
            raise Failure(f"{_SQL}no such column: {missing[0]}", 1)
        lines.append(f"Row: {i} " + ", ".join(f"{n}={_shown(row[n])}" for n in names) + "\n")
    return "".join(lines) or "No result found.\n"


def _sorted(rows: list[Row], order: str) -> list[Row]:
    column, _, direction = order.strip().partition(" ")
    if not column:
        return rows
    if rows and column not in rows[0]:
        raise Failure(f"{_SQL}no such column: {column}", 1)
    return sorted(rows, key=lambda r: _rank(r[column]), reverse=direction.strip().upper() == "DESC")


def _rank(value: Any) -> tuple[int, Any]:
    """SQLite's order: NULL, then numbers, then texts."""
    return (0, 0) if value is None else (2, value) if isinstance(value, str) else (1, value)


def _shown(value: Any) -> str:
    return "NULL" if value is None else str(value)


def _insert(table: Table, row_id: int | None, words: list[str]) -> str:
    if row_id is not None:
        raise Refused("insert")
    table.insert(_bindings(table, words))
    return ""


def _update(table: Table, row_id: int | None, words: list[str]) -> str:
    values = _bindings(table, words)
    for row in _selected(table, row_id, words):
        table.update(row, values)
    return ""


def _delete(table: Table, row_id: int | None, words: list[str]) -> str:
    for row in _selected(table, row_id, words):
        table.delete(row)
    return ""


def _bindings(table: Table, words: list[str]) -> Row:
    """`--bind column:type:value`, once per column; types s(tring), i(nteger), l(ong), d(ouble), f(loat), b(oolean)."""
    kinds = {"s": str, "i": int, "l": int, "d": float, "f": float, "b": lambda v: int(v == "true"), "n": lambda v: None}
    values: Row = {}
    for i, word in enumerate(words[:-1]):
        if word != "--bind":
            continue
        column, kind, value = (words[i + 1].split(":", 2) + ["", ""])[:3]
        if kind not in kinds:
            raise Failure(f"[ERROR] Unsupported type: {kind}", 255)
        if column not in table.defaults:
            raise Failure(f"{_SQL}the table has no column named {column}", 1)
        try:
            values[column] = kinds[kind](value)
        except ValueError:
            raise Failure(f"[ERROR] not a number: {value}", 255) from None
    if not values:
        raise Failure("[ERROR] Binding not specified", 255)
    return values


COMMANDS: dict[str, Handler] = {"content": run}
