"""The result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Check:
    """Result of a check. `fix` is a command or what to change; "" if nothing is wrong."""

    name: str
    state: Literal["ok", "warning", "failed", "not needed"]
    detail: str
    fix: str = ""


def missing(name: str, needed: bool, detail: str, fix: str) -> Check:
    """Result for something that is absent, which is a failure if the recipe needs it."""
    return Check(name, "failed" if needed else "not needed", detail, fix)


def broken(name: str, needed: bool, detail: str, fix: str) -> Check:
    """Result for something that does not work, which gets a warning even if the recipe does not need it."""
    return Check(name, "failed" if needed else "warning", detail, fix)
