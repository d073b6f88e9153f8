"""Scripts for tasks of buttons, links and boxes."""

from __future__ import annotations

import re

from mobilerl.policy.screen import Screen
from mobilerl.suites.miniwob.scripts import (
    Script,
    first,
    matched,
    names,
    press,
    quoted,
    scroll_to,
    search,
    solves,
    submit,
    tap,
)


@solves("click-test")
def click_test(goal: str, screen: Screen) -> Script:
    yield from press(screen, "Click Me!")


@solves("click-test-2", "click-test-transfer")
def click_named(goal: str, screen: Screen) -> Script:
    yield from press(screen, *matched(r"button (\w+)", goal))


@solves("click-button", "click-link")
def click_quoted(goal: str, screen: Screen) -> Script:
    yield from press(screen, quoted(goal)[0])


@solves("click-button-sequence")
def click_sequence(goal: str, screen: Screen) -> Script:
    for name in re.findall(r"button (\w+)", goal):
        screen = yield from press(screen, name)


@solves("click-dialog", "click-dialog-2")
def click_dialog(goal: str, screen: Screen) -> Script:
    name = quoted(goal)[0]
    yield from press(screen, "Close" if name == "x" else name)


@solves("click-checkboxes", "click-checkboxes-large", "click-checkboxes-transfer", "click-option")
def click_boxes(goal: str, screen: Screen) -> Script:
    (wanted,) = matched(r"Select (.*) and click Submit", goal)
    for name in [] if wanted == "nothing" else names(wanted):
        screen = yield from scroll_to(screen, name)
        screen = yield from press(screen, name)
    yield from submit(screen)


@solves("click-widget")
def click_widget(goal: str, screen: Screen) -> Script:
    kind = quoted(goal)[0]
    classes = {"radio": "RadioButton", "checkbox": "CheckBox", "button": "Button"}
    able = [e for e in screen.elements if e.cls == classes.get(kind, "EditText") and "click" in e.actions]
    height = (lambda e: e.box[3] - e.box[1]) if kind == "textarea" else (lambda e: e.box[1] - e.box[3])
    yield tap(max(able, key=height) if kind in ("text", "textarea") else able[0])


@solves("click-tab")
def click_tab(goal: str, screen: Screen) -> Script:
    yield from press(screen, *matched(r"(Tab #\d+)", goal))


@solves("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard")
def click_in_tabs(goal: str, screen: Screen) -> Script:
    tabs = [e.text for e in screen.elements if re.fullmatch(r"(Tab #)?\d+", e.text)]
    yield from click_behind(quoted(goal)[0], tabs, screen)


def click_behind(link: str, headings: list[str], screen: Screen) -> Script:
    """Opens one heading after the other until there is a link with this name."""
    for heading in headings:
        if search(screen, link):
            break
        screen = yield from press(screen, heading)
    yield from press(screen, link)


@solves("click-collapsible")
def click_collapsible(goal: str, screen: Screen) -> Script:
    screen = yield tap(first(e for e in screen.elements if e.text.startswith("Section")))
    yield from submit(screen)


@solves("click-collapsible-2")
def click_in_sections(goal: str, screen: Screen) -> Script:
    headings = [e.text for e in screen.elements if e.text.startswith("Section")]
    yield from click_behind(quoted(goal)[0], headings, screen)


@solves("grid-coordinate")
def grid_coordinate(goal: str, screen: Screen) -> Script:
    x, y = matched(r"\((-?\d+),(-?\d+)\)", goal)
    step = {0: 465 + 28, 1: 187}
    yield tap(min(screen.elements, key=lambda e: _miss(e.centre, (step[0] + int(x) * step[1], 613 - int(y) * 143))))


def _miss(a: tuple[int, int], b: tuple[int, int]) -> int:
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2


@solves("ascending-numbers")
def ascending_numbers(goal: str, screen: Screen) -> Script:
    numbers = [e for e in screen.elements if e.text.isdecimal()]  # they are hidden after the first
    for number in sorted(numbers, key=lambda e: int(e.text)):
        screen = yield tap(number)


@solves("odd-or-even")
def odd_or_even(goal: str, screen: Screen) -> Script:
    for number in [e for e in screen.elements if re.fullmatch(r"-?\d+", e.text)]:
        word = "Even" if int(number.text) % 2 == 0 else "Odd"
        beside = [e for e in screen.elements if e.text == word]
        screen = yield tap(min(beside, key=lambda e: abs(e.centre[1] - number.centre[1])))
    yield from submit(screen)
