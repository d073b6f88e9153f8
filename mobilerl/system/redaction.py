"""Removal of secrets from text that is written, shown or sent elsewhere."""

from __future__ import annotations

import re

HIDDEN = "***"
_USER = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def without_users(text: str) -> str:
    """Hides the user and password of every URL in a text."""
    return _USER.sub(HIDDEN, text)


def without_value(variable: str) -> str:
    """Hides the value of an environment variable, as in `NAME=***`; a bare NAME is unchanged."""
    name, sign, _ = variable.partition("=")
    return f"{name}={HIDDEN}" if sign else name
