"""Terminal tables that truncate nothing, so that names and addresses can be copied from them."""

from __future__ import annotations

import sys

from rich.box import HEAVY_HEAD, Box
from rich.console import Console
from rich.table import Column, Table

FILE_WIDTH = 140
"""Columns of output to a file or another program; a terminal has its own width."""


def make_table(*names: str, whole: str = "", box: Box = HEAVY_HEAD) -> Table:
    """A table with these columns. Long entries are wrapped, except in the column `whole`."""
    return Table(*(Column(name, overflow="fold", no_wrap=name == whole) for name in names), box=box)


def make_console(stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else FILE_WIDTH)
