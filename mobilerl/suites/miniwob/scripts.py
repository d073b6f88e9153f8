"""The parts of the oracle's scripts: finding elements on the screen and acting on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from itertools import product

from mobilerl.envs.base import Action, Swipe, Tap, Type
from mobilerl.policy.actions import swipe_from
from mobilerl.policy.screen import Element, Screen

Moves = Generator[Action, Screen, Screen]
"""Actions, each answered with the screen after it. The result is the last screen."""
Script = Generator[Action, Screen, None]
MakeScript = Callable[[str, Screen], Script]
"""Makes the script of an episode from its goal and first screen."""
MOST_SWIPES = 12
SCRIPTS: dict[str, MakeScript] = {}
"""Scripts by the name of the task."""


def solves(*tasks: str) -> Callable[[MakeScript], MakeScript]:
    """Registers a script for tasks."""

    def register(script: MakeScript) -> MakeScript:
        SCRIPTS.update(dict.fromkeys(tasks, script))
        return script

    return register


def quoted(goal: str) -> list[str]:
    return re.findall(r'"([^"]*)"', goal)


def matched(pattern: str, goal: str) -> tuple[str, ...]:
    """Groups of the pattern. Raises LookupError for a goal in other words."""
    if found := re.search(pattern, goal):
        return found.groups()
    raise LookupError(f"the oracle does not understand {goal!r}")


def names(text: str) -> list[str]:
    """The items of `a, b and c`."""
    return [name for name in re.split(r",? and |, ", text.strip()) if name]


def search(screen: Screen, name: str, action: str = "click") -> Element | None:
    """The element with this name that can be acted on, whatever else its text says."""
    able = [e for e in screen.elements if action in e.actions or not action]
    exact = [e for e in able if e.text == name]
    return next(iter(exact or [e for e in able if name in e.text.split("|")]), None)


def find(screen: Screen, name: str, action: str = "click") -> Element:
    """As `search`. Raises LookupError."""
    if element := search(screen, name, action):
        return element
    raise LookupError(f"the oracle does not see {name!r} among {[e.text for e in screen.elements]}")


def fields(screen: Screen) -> list[Element]:
    return [e for e in screen.elements if "edit" in e.actions]


def first(elements: Iterable[Element]) -> Element:
    """Raises LookupError if there is none."""
    if (element := next(iter(elements), None)) is None:
        raise LookupError("the oracle does not see the element that it looks for")
    return element


def press(screen: Screen, name: str) -> Moves:
    return (yield tap(find(screen, name), screen))


def tap(element: Element, screen: Screen | None = None) -> Tap:
    """Taps an element, with a `screen` where none of those that come after it, and may lie over it, is."""
    x1, y1, x2, y2 = element.box
    after = screen.elements[screen.elements.index(element) + 1 :] if screen else ()
    over = [e for e in after if e.mark is not None and e.depth <= element.depth]
    points = [element.centre, *product((x1 + 12, x2 - 12), (y1 + 12, y2 - 12))]
    return Tap(*next((p for p in points if not any(e.contains(*p) for e in over)), element.centre))


def fill(screen: Screen, number: int, text: str) -> Moves:
    """Types a text into one of the fields, by its number from the top."""
    screen = yield tap(fields(screen)[number])
    return (yield Type(text))


def scroll_to(screen: Screen, name: str) -> Moves:
    """Swipes the list up until the element is on the screen. Raises LookupError at its end."""
    for _ in range(MOST_SWIPES):
        if search(screen, name, ""):
            return screen
        scrolled = yield swipe_up(screen)
        if scrolled.elements == screen.elements:
            break
        screen = scrolled
    raise LookupError(f"the oracle finds no {name!r}")


def swipe_up(screen: Screen) -> Swipe:
    lists = [e for e in screen.elements if "scroll" in e.actions]
    x, y = lists[0].centre if lists else (499, 499)
    return swipe_from(x, y, "up", "short", screen.width, screen.height)


def submit(screen: Screen, name: str = "Submit") -> Moves:
    screen = yield from scroll_to(screen, name)
    return (yield from press(screen, name))
