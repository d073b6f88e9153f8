"""`sqlite3 DB SQL`: Python's own SQLite on database files of the phone.

A database is opened in memory from the file's bytes and written back after a change; SQLite never sees a path. Access
to the host is denied: `ATTACH`, extensions, `VACUUM INTO`, pragmas that name files or folders.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.lang.escapes import to_text
from envs.phone.shell.lang.state import LimitReached
from envs.phone.shell.toybox.call import Call, Program

MAX_DATABASE = 64 << 20
MAX_VALUE = 4 << 20
MAX_SECONDS = 5.0
MAX_GROWTH = 512 << 20
"""Bytes by which the process may grow while a statement runs."""
STEPS = 1000
SEPARATORS = {"list": "|", "csv": ",", "tabs": "\t", "line": ""}
"""The output modes and the separators of their columns."""
_PRAGMAS = frozenset(
    """
    application_id auto_vacuum case_sensitive_like collation_list database_list encoding foreign_key_check
    foreign_key_list foreign_keys freelist_count index_info index_list integrity_check journal_mode page_count page_size
    quick_check schema_version synchronous table_info table_list table_xinfo user_version wal_checkpoint
    """.split()
)
_DENIED_FUNCTIONS = frozenset(("load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"))


def _line(mode: str, separator: str, columns: list[str], row: Sequence[Any]) -> str:
    """The output for one row."""
    texts = ["" if value is None else _text(value) for value in row]
    if mode == "line":
        width = max(5, *map(len, columns))
        return "".join(f"{name:>{width}} = {text}\n" for name, text in zip(columns, texts, strict=True))
    if mode == "csv":
        texts = ['"' + t.replace('"', '""') + '"' if re.search("[\"' ,\n\r\t|;]", t) else t for t in texts]
    return separator.join(texts) + "\n"


def _text(value: Any) -> str:
    if isinstance(value, float):
        text = f"{value:.15g}"
        return text if any(c in text for c in ".en") else f"{text}.0"
    return (to_text(value) if isinstance(value, bytes) else str(value)).partition("\0")[0]


def sqlite3_program(call: Call) -> None:
    mode, header, separator, names = "list", False, "", []
    words = iter(call.words)
    for word in words:
        option = word.lstrip("-") if word.startswith("-") else ""
        if not option:
            names.append(word)
        elif option in ("header", "noheader"):
            header = option == "header"
        elif option in SEPARATORS:
            mode = option
        elif option == "separator":
            separator = next(words, "").replace("\\t", "\t")
        elif option not in ("batch", "readonly", "bail"):
            raise Failure(f"sqlite3: Error: unknown option: {word}\nUse -help for a list of options.")
    name = names[0] if names and names[0] else ":memory:"
    script = "\n".join(names[1:]) if len(names) > 1 else to_text(call.stdin())
    try:
        with closing(_opened(call, name)) as database:
            before = _bytes(database)
            try:
                _Session(call, database, mode, header, separator or SEPARATORS[mode]).run(script)
            finally:  # the statements before one that fails have been carried out
                if name != ":memory:":
                    _save(call, database, name, before)
    except sqlite3.Error as error:
        raise Failure(f"Error: {error}") from None


def _opened(call: Call, name: str) -> sqlite3.Connection:
    path = call.path(name)
    folder = path.rpartition("/")[0] or "/"
    if name != ":memory:" and (files.is_folder(call.phone, path) or not files.exists(call.phone, folder)):
        raise Failure(f'Error: unable to open database "{name}": unable to open database file')
    data = call.phone.files.get(path, b"")
    if len(data) > MAX_DATABASE:
        raise Failure("Error: database or disk is full")
    database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    if data:
        # A file in WAL mode cannot be opened from memory; its two version bytes say so.
        database.deserialize(data[:18] + b"\x01\x01" + data[20:] if data[18:20] == b"\x02\x02" else data)
    database.text_factory = to_text
    database.execute("PRAGMA temp_store = MEMORY")
    for schema in ("main", "temp"):
        (size,) = database.execute(f"PRAGMA {schema}.page_size").fetchone()
        database.execute(f"PRAGMA {schema}.max_page_count = {MAX_DATABASE // size}")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200)
    database.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 50)
    database.set_authorizer(_authorize)
    return database


def _authorize(action: int, one: str | None, two: str | None, schema: str | None, trigger: str | None) -> int:
    denied = (
        action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH)
        or action == sqlite3.SQLITE_PRAGMA
        and (one or "").lower() not in _PRAGMAS
        or action == sqlite3.SQLITE_FUNCTION
        and (two or "").lower() in _DENIED_FUNCTIONS
        or action == sqlite3.SQLITE_CREATE_VTABLE
        and (two or "").lower() not in ("fts3", "fts4", "fts5", "rtree")
    )
    return sqlite3.SQLITE_DENY if denied else sqlite3.SQLITE_OK


def _save(call: Call, database: sqlite3.Connection, name: str, before: bytes) -> None:
    database.set_progress_handler(None, 0)
    if database.in_transaction:
        database.rollback()
    data = _bytes(database)
    if data != before:
        call.write(name, data)


def _bytes(database: sqlite3.Connection) -> bytes:
    """The database as a file. One that was never written to has no pages, and SQLite gives no bytes for it."""
    return database.serialize() if database.execute("PRAGMA page_count").fetchone()[0] else b""


class _Session:
    """Runs statements and dot commands one after the other, up to the first that fails."""

    def __init__(self, call: Call, database: sqlite3.Connection, mode: str, header: bool, separator: str) -> None:
        self._call, self._database = call, database
        self._mode, self._header, self._separator = mode, header, separator
        self._end, self._memory = time.monotonic() + MAX_SECONDS, _memory()
        database.set_progress_handler(self._exhausted, STEPS)

    def _exhausted(self) -> int:
        """Whether a statement takes too long or too much memory, which interrupts it."""
        return int(time.monotonic() > self._end or _memory() - self._memory > MAX_GROWTH)

    def run(self, script: str) -> None:
        pending = ""
        for line in script.split("\n"):
            if not pending.strip() and line.startswith("."):
                self._dot(line)
                continue
            *complete, rest = line.split(";")
            for piece in complete:
                pending += piece + ";"
                self._call.spend(1 + (len(pending) >> 8))
                if sqlite3.complete_statement(pending):
                    self._statement(pending)
                    pending = ""
            pending += rest + "\n"
        self._statement(pending)

    def _statement(self, sql: str) -> None:
        if not sql.strip(" \t\r\n;"):
            return
        try:
            cursor = self._database.execute(sql)
            columns = [d[0] for d in cursor.description or ()]
            for i, row in enumerate(cursor):
                if i == 0 and self._header and self._mode != "line":
                    self._call.out(_line("list", self._separator, columns, columns))
                self._call.out(_line(self._mode, self._separator, columns, row))
                self._call.spend(1)
        except sqlite3.Error as error:
            if str(error) == "interrupted":
                message = "sqlite3: stopped: the statement takes too long or needs too much memory"
                raise LimitReached(message) from None
            raise
        except (ValueError, OverflowError, MemoryError) as error:
            raise Failure(f"Error: {error}") from None

    def _dot(self, line: str) -> None:
        verb, *arguments = line.split()
        if verb in (".tables", ".schema"):
            query = "SELECT type, name, sql FROM sqlite_master WHERE tbl_name LIKE ? ORDER BY rowid"
            rows = self._database.execute(query, (arguments[0] if arguments else "%",)).fetchall()
            if verb == ".schema":
                self._call.out("".join(f"{sql};\n" for _, _, sql in rows if sql))
            else:
                names = [n for kind, n, _ in rows if kind in ("table", "view") and not n.startswith("sqlite_")]
                self._call.out(_columns(sorted(names)))
        elif verb not in (".exit", ".quit"):
            raise Failure(f'Error: unknown command or invalid arguments:  "{verb[1:]}". Enter ".help" for help')


def _columns(names: list[str]) -> str:
    """Names in columns of a terminal of 80, read downwards, as the program prints tables."""
    width = max(map(len, names), default=0)
    rows = -(-len(names) // max(1, 80 // (width + 2)))
    return "".join("  ".join(name.ljust(width) for name in names[row::rows]) + "\n" for row in range(rows))


def _memory() -> int:
    """Bytes of memory that this process holds; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    except OSError:
        return 0


PROGRAMS: dict[str, Program] = {"sqlite3": sqlite3_program}
