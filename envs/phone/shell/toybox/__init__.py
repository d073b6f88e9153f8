"""Programs in `/system/bin` that work on files and text, like toybox."""

from __future__ import annotations

from mobilerl.envs.phone.shell.toybox import changing, find, grep, listing, running, sqlite, text
from mobilerl.envs.phone.shell.toybox.call import Call, Program

__all__ = ["PROGRAMS", "Call", "Program"]
PROGRAMS: dict[str, Program] = {}
for _module in (changing, find, grep, listing, running, sqlite, text):
    PROGRAMS.update(_module.PROGRAMS)
