"""Names of pages and sentences about actions, by templates of our own. No model is asked."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from dataclasses import replace

from sft.pages.actions import PageAction
from sft.pages.graph import Page, PageGraph
from sft.pages.identity import shape_of

LONGEST_NAME = 40
"""Characters of a name."""
COMMON = 4
"""A name that so many pages bear says too little."""

CLICK = ("tap {name}", "press {name}", "choose {name}", "select {name}")
LONG_CLICK = ("press and hold {name}", "keep {name} pressed")
INPUT = ('type "{text}" into {name}', 'enter "{text}" in {name}', 'write "{text}" into the field {name}')
SCROLL = ("swipe {direction} over {name}", "move {name} {direction}")
BACK = ("go back", "return with the back key")
COMPLETE = ("say that the task is done", "finish")
OPENS = "{step}, which brings up {title}"

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
"""For an app's first page that is called as the app is."""
OPERATE = ("In {app}, {step} on {name}", "On {name} of {app}, {step}", "Use {app}: at {name}, {step}")
NAVIGATE = (
    "In {app}, {steps}, and visit {name}",
    "Use {app} to {steps}; also bring up {name}",
    "With {app}: {steps}, and show {name}",
)


class Names:
    """The names that a graph's titles and elements give to its pages."""

    def __init__(self, graph: PageGraph) -> None:
        self._shapes = {page.id: shape_of(page.xml) for page in graph.pages.values()}
        self._abstraction = graph.abstraction
        self._pages: dict[str, set[str]] = defaultdict(set)
        self._labels: dict[str, set[str]] = defaultdict(set)
        for page in graph.pages.values():
            self._pages[page.title].add(page.identity)
            for label in self._controls(page):
                self._labels[label].add(page.identity)
        for _, action, target in graph.triples():
            self._pages[action.name].add(graph.pages[target].identity)
        for page in graph.pages.values():
            self._pages[self._summary(page)].add(page.identity)

    def usable(self, name: str) -> bool:
        """Whether it reads as a name and few pages bear it."""
        return named(name) and len(self._pages[name]) < COMMON

    def unique(self, name: str) -> bool:
        """Whether just one page of the graph bears it."""
        return len(self._pages[name]) == 1

    def general(self, page: Page) -> bool:
        """Whether the title is the page's own: a page for any contact must not be called after one of them."""
        shape = replace(self._shapes[page.id], title=page.title)
        return not page.title or self._abstraction.title(shape) == page.title

    def title(self, page: Page) -> str:
        """What descriptions call a page; "" when its title is no name for it."""
        return page.title if self.general(page) and self.usable(page.title) else ""

    def page(self, page: Page, leading: PageAction | None) -> str:
        """The first of: the title, which descriptions use; what led here said or typed; a summary of the page."""
        led = (leading.text or leading.name) if leading else ""
        return self.title(page) or (led if self.general(page) and self.usable(led) else "") or self._summary(page)

    def _summary(self, page: Page) -> str:
        """By the title, or else by the two of the page's controls that are rarest elsewhere."""
        if self.general(page) and named(page.title):
            return f"the page {page.title} of {page.app}"
        rarest = sorted(self._controls(page), key=lambda label: (len(self._labels[label]), label))[:2]
        return f"the page of {page.app}" + (f" with {' and '.join(rarest)}" if rarest else "")

    def _controls(self, page: Page) -> set[str]:
        """Labels of controls that belong to the page."""
        shape = self._shapes[page.id]
        labels = {t for use, t in shape.controls if self._abstraction.label(shape.package, use, t) == t}
        return {label for label in labels if named(label)}


def named(name: str) -> bool:
    """A name has a letter in it, and is neither too short nor too long."""
    return 1 < len(name) <= LONGEST_NAME and re.search(r"[^\W\d_]", name) is not None


def told(action: PageAction, rng: random.Random) -> str | None:
    """A sentence about an action, None when it has no name to be told by."""
    sentences = {"click": CLICK, "long_click": LONG_CLICK, "input": INPUT, "scroll": SCROLL, "back": BACK}
    name = action.name
    if action.kind == "scroll":
        name = name or "the list"
    elif action.box is not None and not (named(name) or name.isalnum()):
        return None
    sentence = rng.choice(sentences.get(action.kind, COMPLETE))
    return sentence.format(name=name, text=action.text, direction=action.direction)
