"""How the `sqlite3` program prints rows, and its `.dump`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Row = Sequence[Any]


@dataclass
class Format:
    mode: str = "list"
    header: bool = False
    separator: str = ""
    """"" is the mode's own."""
    null: str = ""

    def printer(self, columns: list[str]) -> Printer:
        return Printer(self, columns)


class Printer:
    """Prints one statement's rows: `row` for each, `end` behind the last."""

    def __init__(self, form: Format, columns: list[str]) -> None:
        self._form, self._columns, self._count = form, columns, 0
        self._rows: list[list[str]] = []

    def row(self, row: Row) -> str:
        self._count += 1
        mode = self._form.mode
        if mode == "json":
            pairs = ",".join(f"{_json(n)}:{_json(v)}" for n, v in zip(self._columns, row, strict=True))
            return f"{'[' if self._count == 1 else f',{chr(10)}'}{{{pairs}}}"
        texts = [self._form.null if value is None else shown(value) for value in row]
        if mode == "line":
            width = max(5, *map(len, self._columns))
            lines = [f"{n:>{width}} = {t}\n" for n, t in zip(self._columns, texts, strict=True)]
            return ("" if self._count == 1 else "\n") + "".join(lines)
        if mode in ("column", "box", "table", "markdown"):
            self._rows.append(texts)
            return ""
        if mode == "quote":
            texts = [literal(value) for value in row]
        return self._header() + self._line(texts)

    def end(self) -> str:
        if self._form.mode == "json":
            return "]\n" if self._count else ""
        if not self._rows:
            return ""
        header = [self._columns] if self._form.header or self._form.mode != "column" else []
        widths = [max(len(r[i]) for r in [*header, *self._rows]) for i in range(len(self._columns))]
        rules = [["-" * w for w in widths]] if header else []
        lines = [
            "  ".join(t.ljust(w) for t, w in zip(r, widths, strict=True)).rstrip() + "\n"
            for r in [*header, *rules, *self._rows]
        ]
        return "".join(lines)

    def _header(self) -> str:
        return self._line(self._columns) if self._form.header and self._count == 1 else ""

    def _line(self, texts: list[str]) -> str:
        if self._form.mode == "csv":
            return (self._form.separator or ",").join(map(_csv, texts)) + "\n"
        own = {"tabs": "\t", "quote": ","}.get(self._form.mode, "|")
        return (self._form.separator or own).join(texts) + "\n"


def _csv(text: str) -> str:
    plain = text != "" and all(c not in text for c in "\"' ,\n\r\t|;")
    return text if plain or text == "" else '"' + text.replace('"', '""') + '"'


def shown(value: Any) -> str:
    if isinstance(value, float):
        text = f"{value:.15g}"
        if "e" in text and "." not in text:
            return text.replace("e", ".0e")
        return text if any(c in text for c in ".en") else f"{text}.0"
    if isinstance(value, bytes):
        return value.partition(b"\0")[0].decode("utf-8", "surrogateescape")
    return str(value).partition("\0")[0]


def _json(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode("latin1")
    if isinstance(value, float):
        return shown(value)
    return json.dumps(value, ensure_ascii=False)


def literal(value: Any) -> str:
    """The value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return shown(value)


def dumped(database: sqlite3.Connection) -> Iterator[str]:
    """`.dump`: statements that make the database anew."""
    yield "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n"
    yield from (f"{line}\n" for line in database.iterdump() if line not in ("BEGIN TRANSACTION;", "COMMIT;"))
    yield "COMMIT;\n"
