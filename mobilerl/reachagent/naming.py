"""Names of pages and sentences about actions, from templates; no model is involved."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from functools import lru_cache

from mobilerl.reachagent.actions import PageAction
from mobilerl.reachagent.graph import Page, PageGraph
from mobilerl.reachagent.identity import Shape, shape_of

LONGEST_NAME = 40
"""Maximum length of a name in characters."""
COMMON = 4
"""Number of pages sharing a name from which it is too unspecific."""
CACHED = 4096
"""Number of parsed pages kept in memory."""

PHRASES = {
    "click": ("tap {name}", "press {name}", "choose {name}", "select {name}"),
    "long_click": ("press and hold {name}", "keep {name} pressed"),
    "input": ('type "{text}" into {name}', 'enter "{text}" in {name}', 'write "{text}" into the field {name}'),
    "scroll": ("swipe {direction} over {name}", "move {name} {direction}"),
    "back": ("go back", "return with the back key"),
    "complete": ("say that the task is done", "finish"),
}
"""Phrases for actions, by kind."""
REACH = (
    "Bring up {name} in {app}",
    "Where is {name} in {app}? Go there",
    "Navigate {app} until you see {name}",
    "I want to look at {name} in {app}",
    "Please get {app} to show {name}",
    "Find {name} in {app}",
    "Make your way to {name}, starting at {app}",
    "In {app}, head for {name}",
    "Let {app} display {name}",
    "{name} should be on the screen; use {app}",
    "Start {app} and continue to {name}",
    "Switch to {name} within {app}",
)
OPEN = ("Open {app}", "Start the app {app}", "Bring up {app}")
"""Instructions for an app's first page if it has the name of the app."""
OPERATE = ("In {app}, {step} on {name}", "On {name} of {app}, {step}", "Use {app}: at {name}, {step}")
NAVIGATE = (
    "In {app}, {steps}, and visit {name}",
    "Use {app} to {steps}; also bring up {name}",
    "With {app}: {steps}, and show {name}",
)


class Names:
    """Names of the pages of a graph, from their titles and elements."""

    def __init__(self, graph: PageGraph) -> None:
        self._shape = lru_cache(CACHED)(lambda page_id: shape_of(graph.pages[page_id].xml))
        self._abstraction = graph.abstraction
        self._packages: dict[str, str] = {}
        self._pages: dict[str, set[str]] = defaultdict(set)
        self._labels: dict[str, set[str]] = defaultdict(set)
        for page in graph.pages.values():
            self._packages[page.id] = self._shape(page.id).package
            self._pages[page.title].add(page.identity)
            for label in self._controls(page):
                self._labels[label].add(page.identity)
        for _, action, target in graph.triples():
            self._pages[action.name].add(graph.pages[target].identity)
        for page in graph.pages.values():
            self._pages[self._summary(page)].add(page.identity)

    def usable(self, name: str) -> bool:
        """Whether a text is like a name and shared by few pages."""
        return is_name(name) and len(self._pages[name]) < COMMON

    def unique(self, name: str) -> bool:
        """Whether exactly one page of the graph has this name."""
        return len(self._pages[name]) == 1

    def general(self, page: Page) -> bool:
        """Whether the title is not contents, since a page for any contact must not be named after one of them."""
        shape = Shape(self._packages[page.id], page.title, frozenset())
        return not page.title or self._abstraction.title(shape) == page.title

    def title(self, page: Page) -> str:
        """The page's title; "" if it does not name the page."""
        return page.title if self.general(page) and self.usable(page.title) else ""

    def page(self, page: Page, leading: PageAction | None) -> str:
        """Name of a page: its title, else the text or name of the action that led here, else a summary."""
        led = (leading.text or leading.name) if leading else ""
        return self.title(page) or (led if self.general(page) and self.usable(led) else "") or self._summary(page)

    def _summary(self, page: Page) -> str:
        """Summary of a page: the app with the title, else with the two controls that are rarest elsewhere."""
        if self.general(page) and is_name(page.title):
            return f"the page {page.title} of {page.app}"
        rarest = sorted(self._controls(page), key=lambda label: (len(self._labels[label]), label))[:2]
        return f"the page of {page.app}" + (f" with {' and '.join(rarest)}" if rarest else "")

    def _controls(self, page: Page) -> set[str]:
        """Labels of controls that are not contents."""
        shape = self._shape(page.id)
        labels = {t for use, t in shape.controls if self._abstraction.label(shape.package, use, t) == t}
        return {label for label in labels if is_name(label)}


def is_name(name: str) -> bool:
    """Whether a text contains a letter and is neither too short nor too long for a name."""
    return 1 < len(name) <= LONGEST_NAME and re.search(r"[^\W\d_]", name) is not None


def phrase(action: PageAction, rng: random.Random) -> str | None:
    """Phrase that describes an action; None if the element has no name."""
    name = action.name
    if action.kind == "scroll":
        name = name or "the list"
    elif action.box is not None and not (is_name(name) or name.isalnum()):
        return None
    return rng.choice(PHRASES[action.kind]).format(name=name, text=action.text, direction=action.direction)
