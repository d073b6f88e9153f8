"""Terminal output: what other programs said is made harmless, and tables truncate nothing that one wants to copy."""

from __future__ import annotations

import logging
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.box import HEAVY_HEAD, Box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.segment import Segment
from rich.table import Column, Table

from mobilerl.redaction import without_users

FILE_WIDTH = 100
"""Columns of output to a file or another program, unless COLUMNS says otherwise; a terminal has its own width."""
LINE_GAP_S = 5.0
"""Shortest time between two lines about progress in a file."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and newline, and those that turn the direction of writing."""


def printable(text: str) -> str:
    """For a terminal: without escape sequences, which could clear it or write the clipboard, and without passwords."""
    return _CONTROL.sub("?", without_users(text))


class SafeConsole(Console):
    """Prints everything `printable`, except rich's own styles and cursor movements."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


class _SafeFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def make_logging_safe() -> None:
    """Warnings that nobody else handles are printed `printable`."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_SafeFormatter())


def make_table(*names: str, whole: str = "", box: Box = HEAVY_HEAD) -> Table:
    """A table with these columns. Long entries are wrapped, except in the column `whole`."""
    return Table(*(Column(name, overflow="fold", no_wrap=name == whole) for name in names), box=box)


def make_console(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    columns = os.environ.get("COLUMNS", "")
    width = None if stream.isatty() else int(columns) if columns.isdecimal() else FILE_WIDTH
    return SafeConsole(stderr=stderr, width=width, highlight=False)


def fit(text: str, width: int) -> str:
    """The text with lines of at most `width` columns where its words allow it: paths and addresses stay whole."""
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
    """Prints lines that fit the output, without rich's markup."""
    console = make_console(stderr)
    console.print(fit(text, console.width), markup=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 20 min`, `2 d 5 h`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    hours = round(seconds / 3600)
    return f"{minutes // 60} h {minutes % 60} min" if hours < 36 else f"{hours // 24} d {hours % 24} h"


@contextmanager
def progress_bar(what: str, before: int = 0) -> Iterator[Callable[..., None]]:
    """Yields `show(done, total, note="")`: a bar with the time left on standard error.

    Where that is no terminal, such as a log file, a line at every tenth instead, at least `LINE_GAP_S` apart.
    `before`: how much an earlier process has done.
    """
    console = make_console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    more = TextColumn("{task.fields[more]}", markup=False)
    settings = {"console": console, "transient": True, "disable": not console.is_terminal}
    began = printed = time.monotonic()
    tenths = 0
    # What goes to a file stays there.
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
