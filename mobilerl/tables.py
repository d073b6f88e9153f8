"""Tables on the terminal of which nothing is cut off, since names and addresses in them are to be copied."""

from __future__ import annotations

import sys

from rich.box import HEAVY_HEAD, Box
from rich.console import Console
from rich.table import Column, Table

FILE_WIDTH = 140
"""Of what goes to a file or another program; a terminal has its own."""


def make_table(*names: str, whole: str = "", box: Box = HEAVY_HEAD) -> Table:
    """One with these columns. Entries are folded where they must, those of the column `whole` last of all."""
    return Table(*(Column(name, overflow="fold", no_wrap=name == whole) for name in names), box=box)


def make_console(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else FILE_WIDTH)
