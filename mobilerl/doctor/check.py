"""The outcome of one check of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "failed", "not needed"]


@dataclass(frozen=True, slots=True)
class Check:
    """`fix` is the command that helps, or what to change; "" when nothing is wrong."""

    name: str
    state: State
    detail: str
    fix: str = ""


def ok(name: str, detail: str) -> Check:
    return Check(name, "ok", detail)


def warning(name: str, detail: str, fix: str) -> Check:
    return Check(name, "warning", detail, fix)


def missing(name: str, needed: bool, detail: str, fix: str) -> Check:
    """Something that is not there: failed if the recipe needs it, irrelevant if not."""
    return Check(name, "failed" if needed else "not needed", detail, fix)


def broken(name: str, needed: bool, detail: str, fix: str) -> Check:
    """Something that is there and does not work: worth a warning even if the recipe does not need it."""
    return Check(name, "failed" if needed else "warning", detail, fix)
