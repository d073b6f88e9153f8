"""The device's command line: the commands an Android test harness uses, with a real device's output."""

from __future__ import annotations

from envs.phone.shell.command import Failure
from envs.phone.shell.core import Result, Session, Shell

__all__ = ["Failure", "Result", "Session", "Shell"]
