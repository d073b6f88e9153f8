"""`sqlite3 DB SQL`: Python's own SQLite on database files of the phone.

A database is opened in memory from the file's bytes and written back after a change; SQLite never sees a path. What
could reach the host is refused: `ATTACH`, extensions, `VACUUM INTO`, pragmas that name files or folders.
"""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.lang.state import LimitReached
from envs.phone.shell.lang.streams import to_text
from envs.phone.shell.toybox.call import Call, Program
from envs.phone.shell.toybox.sqlite_rows import MODES, Format

MAX_DATABASE = 64 << 20
MAX_VALUE = 4 << 20
MAX_SECONDS = 5.0
MAX_GROWTH = 512 << 20
"""Bytes by which the process may grow while a statement runs."""
STEPS = 1000
_PRAGMAS = frozenset(
    """
    application_id auto_vacuum case_sensitive_like collation_list compile_options count_changes data_version
    database_list defer_foreign_keys encoding foreign_key_check foreign_key_list foreign_keys freelist_count
    full_column_names function_list incremental_vacuum index_info index_list index_xinfo integrity_check journal_mode
    legacy_alter_table locking_mode optimize page_count page_size pragma_list quick_check read_uncommitted
    recursive_triggers reverse_unordered_selects schema_version secure_delete short_column_names synchronous
    table_info table_list table_xinfo trusted_schema user_version wal_checkpoint
    """.split()
)
_REFUSED_FUNCTIONS = frozenset(("load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"))


def sqlite3_program(call: Call) -> None:
    form, names = Format(), []
    words = iter(call.words)
    for word in words:
        option = "-" + word.lstrip("-") if word.startswith("-") else ""
        if not option:
            names.append(word)
        elif option in ("-header", "-noheader"):
            form.header = option == "-header"
        elif option[1:] in MODES:
            form.mode = option[1:]
        elif option == "-separator":
            form.separator = next(words, "").replace("\\t", "\t")
        elif option == "-nullvalue":
            form.null = next(words, "")
        elif option == "-version":
            call.out("3.32.2 2021-07-12 15:00:17\n")
            return
        elif option not in ("-batch", "-readonly", "-bail"):
            raise Failure(f"sqlite3: Error: unknown option: {word}\nUse -help for a list of options.")
    name = names[0] if names and names[0] else ":memory:"
    script = "\n".join(names[1:]) if len(names) > 1 else to_text(call.stdin())
    try:
        with closing(_opened(call, name)) as database:
            before = _bytes(database)
            try:
                _Session(call, database, form).run(script)
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
    database.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
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
    if action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH):
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_PRAGMA and (one or "").lower() not in _PRAGMAS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (two or "").lower() in _REFUSED_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_CREATE_VTABLE and (two or "").lower() not in ("fts3", "fts4", "fts5", "rtree"):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


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

    def __init__(self, call: Call, database: sqlite3.Connection, form: Format) -> None:
        self._call, self._database, self._form = call, database, form
        self._end, self._memory = time.monotonic() + MAX_SECONDS, _memory()
        database.set_progress_handler(self._watch, STEPS)

    def _watch(self) -> int:
        """Ends a statement that takes too long or too much memory."""
        return int(time.monotonic() > self._end or _memory() - self._memory > MAX_GROWTH)

    def run(self, script: str) -> None:
        pending = ""
        for line in script.split("\n"):
            if not pending.strip() and line.startswith("."):
                self._dot(line)
                continue
            for i, piece in enumerate(line.split(";")):
                pending += ";" * (i > 0) + piece
                if i < line.count(";") and sqlite3.complete_statement(pending + ";"):
                    self._statement(pending + ";")
                    pending = "\0"
                pending = "" if pending == "\0" else pending
                self._call.spend(1 + (len(pending) >> 8))
            pending += "\n"
        if pending.strip():
            self._statement(pending)

    def _statement(self, sql: str) -> None:
        if not sql.strip(" \t\r\n;"):
            return
        try:
            cursor = self._database.execute(sql)
            columns = [d[0] for d in cursor.description or ()]
            for text in self._form.lines(columns, cursor) if columns else ():
                self._call.out(text)
                self._call.spend(1)
        except sqlite3.Error as error:
            self._fail(error)
        except (ValueError, OverflowError, MemoryError) as error:
            raise Failure(f"Error: {error}") from None

    def _fail(self, error: sqlite3.Error) -> None:
        message = str(error)
        if message == "interrupted":
            raise LimitReached("sqlite3: stopped: the statement takes too long or needs too much memory")
        raise Failure(f"Error: {message}") from None

    def _dot(self, line: str) -> None:
        verb, *arguments = line.split()
        if verb in (".tables", ".schema"):
            self._listing(verb, arguments[0] if arguments else "%")
        elif verb == ".dump":
            for text in self._database.iterdump():
                self._call.out(f"{text}\n")
        elif verb in (".headers", ".header") and arguments:
            self._form.header = arguments[0].lower() in ("on", "yes", "1")
        elif verb == ".mode" and arguments and arguments[0] in MODES:
            self._form.mode = arguments[0]
        elif verb not in (".exit", ".quit"):
            raise Failure(f'Error: unknown command or invalid arguments:  "{verb[1:]}". Enter ".help" for help')

    def _listing(self, verb: str, like: str) -> None:
        query = "SELECT type, name, sql FROM sqlite_master WHERE tbl_name LIKE ? ORDER BY rowid"
        rows = self._database.execute(query, (like,)).fetchall()
        if verb == ".schema":
            self._call.out("".join(f"{sql};\n" for _, _, sql in rows if sql))
        else:
            tables = (n for kind, n, _ in rows if kind in ("table", "view") and not n.startswith("sqlite_"))
            self._call.out(_columns(sorted(tables)))


def _columns(names: list[str]) -> str:
    """Names in columns of a terminal of 80, read downwards, as the program prints tables."""
    if not names:
        return ""
    width = max(map(len, names))
    count = max(1, 80 // (width + 2))
    rows = -(-len(names) // count)
    lines = ["  ".join(name.ljust(width) for name in names[row::rows]) for row in range(rows)]
    return "".join(f"{line}\n" for line in lines)


def _memory() -> int:
    """Bytes of memory that this process holds; 0 where the system does not say."""
    try:
        return int(re.split(r"\s", Path("/proc/self/statm").read_text())[1]) * 4096
    except OSError:
        return 0


PROGRAMS: dict[str, Program] = {"sqlite3": sqlite3_program}
