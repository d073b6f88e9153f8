"""How the `sqlite3` program prints rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

MODES = {"list": "|", "csv": ",", "tabs": "\t", "json": "", "line": "", "column": ""}
"""The modes and their separators."""


@dataclass
class Format:
    mode: str = "list"
    header: bool = False
    separator: str = ""
    """"" is the mode's own."""
    null: str = ""

    def lines(self, columns: list[str], rows: Iterator[Sequence[Any]]) -> Iterator[str]:
        """What is printed for the rows of one statement."""
        if self.mode == "json":
            start = "["
            for row in rows:
                yield start + "{" + ",".join(f"{_json(n)}:{_json(v)}" for n, v in zip(columns, row, strict=True)) + "}"
                start = ",\n"
            yield "]\n" if start != "[" else ""
            return
        shown = ([self.null if value is None else _text(value) for value in row] for row in rows)
        if self.mode == "line":
            width = max(5, *map(len, columns))
            for i, texts in enumerate(shown):
                yield "\n" * (i > 0) + "".join(f"{n:>{width}} = {t}\n" for n, t in zip(columns, texts, strict=True))
        elif self.mode == "column":
            table = list(shown)
            widths = [max(map(len, column)) for column in zip(columns, *table, strict=True)] if table else []
            header = [columns, ["-" * width for width in widths]] if self.header and table else []
            for texts in [*header, *table]:
                yield "  ".join(t.ljust(w) for t, w in zip(texts, widths, strict=True)).rstrip() + "\n"
        else:
            header = self.header
            for texts in shown:
                if header:
                    yield self._line(columns)
                header = False
                yield self._line(texts)

    def _line(self, texts: list[str]) -> str:
        texts = [_csv(text) for text in texts] if self.mode == "csv" else texts
        return (self.separator or MODES[self.mode]).join(texts) + "\n"


def _csv(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in "\"' ,\n\r\t|;") else text


def _text(value: Any) -> str:
    if isinstance(value, float):
        text = f"{value:.15g}"
        if "e" in text and "." not in text:
            return text.replace("e", ".0e")
        return text if any(c in text for c in ".en") else f"{text}.0"
    text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
    return text.partition("\0")[0]


def _json(value: Any) -> str:
    if isinstance(value, float):
        return _text(value)
    return json.dumps(value.decode("latin1") if isinstance(value, bytes) else value, ensure_ascii=False)
