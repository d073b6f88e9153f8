"""How far an exploration goes, and what it reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sft.pages.actions import PageAction


@dataclass(frozen=True, slots=True)
class Limits:
    """`pages` and `actions` (played) per app; `depth` in actions from the app's home.

    `changes` and `scrolled`: variants of one page. `alike`: how many elements of one class and size are tried on a page
    (rows of a list, keys), `alike_changed` on its variants. `tries` of an action on a device that fails.
    """

    pages: int = 300
    actions: int = 10_000
    depth: int = 12
    changes: int = 3
    scrolled: int = 1
    alike: int = 12
    alike_changed: int = 4
    tries: int = 3

    def __post_init__(self) -> None:
        if min(self.pages, self.actions, self.depth, self.alike, self.alike_changed, self.tries) < 1:
            raise ValueError("the limits of an exploration are at least 1 (changes and scrolled: 0)")


@dataclass(frozen=True, slots=True)
class Fault:
    """An action that the device failed at on every try; the graph has no edge for it."""

    page: str
    action: PageAction
    reason: str


@dataclass
class Report:
    """What an exploration did, for people to read."""

    actions: int = 0
    """Played, every try counted."""
    faults: list[Fault] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    """Why screens that were seen are not in the graph -> how many."""
    merged: int = 0
    """Screens that joined a page although they were not exactly as it is."""
