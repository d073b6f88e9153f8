"""The programs of `/system/bin` that work on the phone's files and on text, after toybox."""

from __future__ import annotations

from envs.phone.shell.toybox import changing, finding, grep, listing, misc, printf, running, sed, sqlite, sums, text
from envs.phone.shell.toybox.call import Call, Program

__all__ = ["PROGRAMS", "Call", "Program"]
PROGRAMS: dict[str, Program] = {}
for _module in (changing, finding, grep, listing, misc, printf, running, sed, sqlite, sums, text):
    PROGRAMS.update(_module.PROGRAMS)
