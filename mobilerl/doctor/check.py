"""The result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Check:
    """`fix` is a command, or what to change; "" if nothing is wrong."""

    name: str
    state: Literal["ok", "warning", "failed", "not needed"]
    detail: str
    fix: str = ""


def missing(name: str, needed: bool, detail: str, fix: str) -> Check:
    """Something is absent: a failure if the recipe needs it."""
    return Check(name, "failed" if needed else "not needed", detail, fix)


def broken(name: str, needed: bool, detail: str, fix: str) -> Check:
    """Something is present but does not work: worth a warning even if the recipe does not need it."""
    return Check(name, "failed" if needed else "warning", detail, fix)
