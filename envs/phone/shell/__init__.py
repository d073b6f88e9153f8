"""The phone's shell: the commands that Android test harnesses use, with the output of a real device."""

from __future__ import annotations

from mobilerl.envs.phone.shell.command import Failure
from mobilerl.envs.phone.shell.core import Result, Session, Shell

__all__ = ["Failure", "Result", "Session", "Shell"]
