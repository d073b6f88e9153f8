"""The pages that an exploration has found: how to get back to each, and which of them a screen is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sft.pages.actions import PageAction
from sft.pages.graph import Page
from sft.pages.identity import Shape, difference


@dataclass(frozen=True, slots=True)
class Sight:
    """A screen as it was seen."""

    xml: str
    shape: Shape
    identity: str
    exact: str
    """Digest of the dump: equal only for screens that are the same to the letter."""


@dataclass(slots=True)
class ExploredPage:
    """What the explorer knows of a page of its graph."""

    page: Page
    path: tuple[PageAction, ...]
    """From the app's home."""
    saved: object
    """What brings the device back, as `sft.pages.states` gave it."""
    exact: str
    changed: bool
    """Whether it is a variant, made by an action that did not leave its page."""
    tried: set[PageAction] = field(default_factory=set)
    lost: bool = False
    """The device cannot be brought back to it."""


class Places:
    """By page. Those with one identity are variants of one page."""

    def __init__(self) -> None:
        self._places: dict[str, ExploredPage] = {}

    def __getitem__(self, page: str) -> ExploredPage:
        return self._places[page]

    def add(self, place: ExploredPage) -> None:
        self._places[place.page.id] = place

    def variants(self, identity: str) -> list[ExploredPage]:
        return [place for place in self._places.values() if place.page.identity == identity]

    def exactly(self, sight: Sight) -> str | None:
        """The page that shows this very screen."""
        return next((p.page.id for p in self.variants(sight.identity) if p.exact == sight.exact), None)

    def nearest(self, sight: Sight, png: bytes) -> str | None:
        """The variant that looks most like `png` (b"": the first one); None when no page has the screen's identity."""
        variants = self.variants(sight.identity)
        if len(variants) > 1 and png:
            return min(variants, key=lambda place: difference(png, place.page.screenshot)).page.id
        return variants[0].page.id if variants else None


def new_name(known: Mapping[str, object], page: Page, action: PageAction) -> str:
    """Of the page that an action leads to: the page's name and the action's number; a number more where it is known."""
    name = first = f"{page.id}_{page.actions.index(action.slot)}"
    twin = 1
    while name in known:  # the same field with another text
        twin += 1
        name = f"{first}t{twin}"
    return name
