"""How and when a run was started: one line of starts.jsonl per process that wrote to the run directory."""

from __future__ import annotations

import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mobilerl import __version__
from mobilerl.system.redaction import HIDDEN, without_users

STARTS_FILE = "starts.jsonl"
SECRET_FLAG = "--fleet.environment"
"""Its values are written to no file of a run."""


def describe_start(iteration: int) -> dict[str, Any]:
    """Line of this process, whose first iteration is `iteration`. The command is "" in a notebook."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"iteration": iteration, "time": now, "command": command_line(sys.argv), "version": __version__}


def command_line(argv: list[str]) -> str:
    """The command of a process with this `sys.argv`, without secrets; "" in a notebook or an interactive session."""
    program = Path(argv[0])
    if program.stem == "mobilerl" or program.parts[-2:] == ("mobilerl", "__main__.py"):
        start = ["mobilerl"]
    elif getattr(sys.modules["__main__"], "__file__", None):
        start = ["python", argv[0]]
    else:
        return ""
    return shlex.join([*start, *map(_show_change, argv, argv[1:])])


def _show_change(before: str, word: str) -> str:
    if before == SECRET_FLAG:
        return HIDDEN
    name, sign, _ = word.partition("=")
    return f"{name}={HIDDEN}" if sign and name == SECRET_FLAG else without_users(word)
