"""Secrets are cut out of what is written, shown or sent elsewhere."""

from __future__ import annotations

import re

HIDDEN = "***"
_USER = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def without_users(text: str) -> str:
    """`text` with the user and password of every URL in it hidden."""
    return _USER.sub(HIDDEN, text)


def without_value(variable: str) -> str:
    """An environment variable `NAME=VALUE` as `NAME=***`; a bare NAME stays."""
    name, sign, _ = variable.partition("=")
    return f"{name}={HIDDEN}" if sign else name
