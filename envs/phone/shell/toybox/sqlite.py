"""`sqlite3 DB SQL`: runs Python's SQLite on database files of the phone.

A database is loaded into memory from the bytes of its file, and written back after changes; SQLite never sees a path.
Access to the host is denied: `ATTACH`, extensions, `VACUUM INTO` and all pragmas.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from mobilerl.envs.phone.shell import files
from mobilerl.envs.phone.shell.command import Failure
from mobilerl.envs.phone.shell.lang.escapes import to_text
from mobilerl.envs.phone.shell.lang.state import LimitReached, writing
from mobilerl.envs.phone.shell.toybox.call import Call, Program

MAX_DATABASE = 64 << 20
MAX_VALUE = 4 << 20
MAX_SECONDS = 5.0
MAX_GROWTH = 512 << 20
"""Bytes by which the process may grow while statements run."""
STEPS = 1000
_DENIED_FUNCTIONS = frozenset(("load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"))


def sqlite3_program(call: Call) -> None:
    _, names = call.options("", least=1)
    name, sql = names[0], names[1] if len(names) > 1 else to_text(call.stdin())
    try:
        with closing(_open_database(call, name)) as database:
            before = _bytes(database)
            try:
                _run(call, database, sql)
            finally:  # the statements before a failed one have taken effect
                database.set_authorizer(None)
                database.set_progress_handler(None, 0)
                database.rollback()
                if name != ":memory:" and (after := _bytes(database)) != before:
                    writing(call.shell, name, append=False).write(after)
    except sqlite3.Error as error:
        raise Failure(f"Error: {error}") from None


def _open_database(call: Call, name: str) -> sqlite3.Connection:
    path = call.path(name)
    folder = path.rpartition("/")[0] or "/"
    if name != ":memory:" and (files.is_folder(call.phone, path) or not files.exists(call.phone, folder)):
        raise Failure(f'Error: unable to open database "{name}": unable to open database file')
    data = call.phone.files.get(path, b"")
    if len(data) > MAX_DATABASE:
        raise Failure("Error: database or disk is full")
    database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    if data:
        # A file in WAL mode, as its two version bytes say, cannot be opened from memory.
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
    return database


def _run(call: Call, database: sqlite3.Connection, sql: str) -> None:
    """Runs statements in order until one fails, and prints their rows."""
    end, memory = time.monotonic() + MAX_SECONDS, _memory()

    def check_budget() -> int:
        return int(time.monotonic() > end or _memory() - memory > MAX_GROWTH)

    database.set_progress_handler(check_budget, STEPS)
    database.set_authorizer(_authorize)
    pending = ""
    try:
        for piece in sql.split(";"):
            pending += f"{piece};"
            call.spend(1 + (len(pending) >> 8))
            if sqlite3.complete_statement(pending) or not pending.strip("; \t\r\n"):
                for row in database.execute(pending):
                    call.out("|".join("" if value is None else _text(value) for value in row) + "\n")
                    call.spend(1)
                pending = ""
        database.execute(pending.removesuffix(";"))
    except sqlite3.Error as error:
        if str(error) == "interrupted":
            message = "sqlite3: stopped: the statement takes too long or needs too much memory"
            raise LimitReached(message) from None
        raise
    except (ValueError, OverflowError, MemoryError) as error:
        raise Failure(f"Error: {error}") from None


def _text(value: int | float | str | bytes) -> str:
    if isinstance(value, float):
        text = f"{value:.15g}"
        return text if any(c in text for c in ".en") else f"{text}.0"
    return (to_text(value) if isinstance(value, bytes) else str(value)).partition("\0")[0]


def _memory() -> int:
    """Resident memory of this process in bytes; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    except OSError:
        return 0


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    denied = action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA)
    denied = denied or action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _DENIED_FUNCTIONS
    denied = denied or action == sqlite3.SQLITE_CREATE_VTABLE
    return sqlite3.SQLITE_DENY if denied else sqlite3.SQLITE_OK


def _bytes(database: sqlite3.Connection) -> bytes:
    """The database file. SQLite returns no bytes for a database without pages, to which nothing was written."""
    return database.serialize() if database.execute("PRAGMA page_count").fetchone()[0] else b""


PROGRAMS: dict[str, Program] = {"sqlite3": sqlite3_program}
