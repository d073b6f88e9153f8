"""Scripts for tasks of lists and of several pages."""

from __future__ import annotations

from mobilerl.policy.screen import Screen
from mobilerl.suites.miniwob.scripts import (
    Script,
    fill,
    find,
    matched,
    press,
    quoted,
    scroll_to,
    search,
    solves,
    swipe_up,
    tap,
)

RESULTS = 3
"""Results on a page of the search engine."""


@solves("email-inbox-delete", "email-inbox-important")
def inbox_icon(goal: str, screen: Screen) -> Script:
    (sender,) = matched(r"email by (\w+) and", goal)
    screen = yield from scroll_to(screen, sender)
    thread = find(screen, sender)
    icon = "trash" if "trash" in goal else "star"
    inside = [e for e in screen.elements if e.text == icon and thread.contains(*e.centre)]
    while not inside:
        screen = yield swipe_up(screen)
        thread = find(screen, sender)
        inside = [e for e in screen.elements if e.text == icon and thread.contains(*e.centre)]
    yield tap(inside[0])


@solves("navigate-tree")
def navigate_tree(goal: str, screen: Screen) -> Script:
    name, opened = quoted(goal)[0], set[str]()
    while not search(screen, name):
        closed = [
            (arrow, label)
            for arrow, label in zip(screen.elements, screen.elements[1:], strict=False)
            if "expandable" in arrow.text and label.text not in opened
        ]
        arrow, label = closed[0]
        opened.add(label.text)
        screen = yield tap(arrow)
    yield from press(screen, name)


@solves("search-engine")
def search_engine(goal: str, screen: Screen) -> Script:
    text, number = quoted(goal)[0], int(matched(r"(\d+)\w\w search result", goal)[0])
    screen = yield from fill(screen, 0, text)
    screen = yield from press(screen, "Search")
    page, place = (number - 1) // RESULTS, (number - 1) % RESULTS
    if page:
        screen = yield from press(screen, str(page + 1))
    heads = [before for before, e in zip(screen.elements, screen.elements[1:], strict=False) if "://" in e.text]
    yield tap(heads[place])
