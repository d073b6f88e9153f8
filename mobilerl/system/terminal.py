"""Terminal output: text of other programs is made safe to print, and tables do not truncate text to be copied."""

from __future__ import annotations

import logging
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.box import HEAVY_HEAD, Box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.segment import Segment
from rich.table import Column, Table

from mobilerl.system.redaction import without_users

FILE_WIDTH = 100
"""Columns of output to a file or another program, unless $COLUMNS is set; a terminal has its own width."""
LINE_GAP_S = 5.0
"""Minimum seconds between two progress lines in a file."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters except tab and newline, and those that change the direction of writing."""


def printable(text: str) -> str:
    """Removes passwords, and escape sequences, which could clear a terminal or write to the clipboard."""
    return _CONTROL.sub("?", without_users(text))


class SafeConsole(Console):
    """Makes all output `printable`, except rich's own styles and cursor movements."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


class _SafeFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def make_logging_safe() -> None:
    """Makes warnings that no other handler prints `printable`."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_SafeFormatter())


def make_table(*names: str, whole: str = "", box: Box = HEAVY_HEAD) -> Table:
    """Makes a table with these columns. Long entries are wrapped, except in the column `whole`."""
    return Table(*(Column(name, overflow="fold", no_wrap=name == whole) for name in names), box=box)


def make_console(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    columns = os.environ.get("COLUMNS", "")
    width = None if stream.isatty() else int(columns) if columns.isdecimal() else FILE_WIDTH
    return SafeConsole(stderr=stderr, width=width, highlight=False)


def fit(text: str, width: int) -> str:
    """Wraps text to `width` columns without breaking words, so that paths and addresses stay whole."""
    return "\n".join(
        textwrap.fill(
            line,
            width,
            subsequent_indent=" " * (len(line) - len(line.lstrip()) + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    )


def say(text: str, stderr: bool = False) -> None:
    """Prints text wrapped to the width of the output, without rich's markup."""
    console = make_console(stderr)
    console.print(fit(text, console.width), markup=False, soft_wrap=True)


def header(rows: Mapping[str, object]) -> None:
    """Prints what a command is about to do, one `name  value` per line, without empty values."""
    width = max(map(len, rows)) + 2
    say("\n".join(f"{name:{width}}{value}" for name, value in rows.items() if value))


def duration(seconds: float) -> str:
    """Formats a duration, as in `40 s`, `12 min`, `3 h 20 min` and `2 d 5 h`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    hours = round(seconds / 3600)
    return f"{minutes // 60} h {minutes % 60} min" if hours < 36 else f"{hours // 24} d {hours % 24} h"


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Says on standard error what begins and then how long it took, for a start that may take minutes."""
    say(f"{what} ...", stderr=True)
    began = time.monotonic()
    yield
    say(f"{what}: {duration(time.monotonic() - began)}", stderr=True)


@contextmanager
def progress_bar(what: str, before: int = 0) -> Iterator[Callable[..., None]]:
    """Yields `show(done, total, note="")`, which updates a bar with the time left on standard error.

    If that is not a terminal but, say, a log file, it prints a line at every tenth instead, at least `LINE_GAP_S`
    apart. `before` is what an earlier process has done.
    """
    console = make_console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    more = TextColumn("{task.fields[more]}", markup=False)
    settings: dict[str, Any] = {"console": console, "transient": True, "disable": not console.is_terminal}
    began = printed = time.monotonic()
    tenths = 0
    # Output to a file must not be redirected to the bar's console.
    with Progress(*columns, more, **settings, redirect_stdout=sys.stdout.isatty()) as progress:
        task = progress.add_task(what, total=None, more="")

        def show(done: int, total: int, note: str = "") -> None:
            nonlocal printed, tenths
            now, part = time.monotonic(), 10 * done // total
            left = f"{duration((now - began) * (total - done) / (done - before))} left" if done > before else ""
            more = ", ".join(filter(None, (left, note)))
            progress.update(task, completed=done, total=total, more=more)
            if not console.is_terminal and part > tenths and now >= printed + LINE_GAP_S:
                printed, tenths = now, part
                say(f"{what}: {done}/{total}, {more}", stderr=True)

        yield show
