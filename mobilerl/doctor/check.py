"""The outcome of one look at the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "failed", "not needed"]


@dataclass(frozen=True, slots=True)
class Check:
    """`cure` is the command that mends it, or what to change; "" when there is nothing to mend."""

    name: str
    state: State
    detail: str
    cure: str = ""


def ok(name: str, detail: str) -> Check:
    return Check(name, "ok", detail)


def warning(name: str, detail: str, cure: str) -> Check:
    return Check(name, "warning", detail, cure)


def missing(name: str, needed: bool, detail: str, cure: str) -> Check:
    """Something that is not there: failed where the recipe needs it, and of no matter where it does not."""
    return Check(name, "failed" if needed else "not needed", detail, cure)


def broken(name: str, needed: bool, detail: str, cure: str) -> Check:
    """Something that is there and does not work: worth a warning even where the recipe does not need it."""
    return Check(name, "failed" if needed else "warning", detail, cure)
