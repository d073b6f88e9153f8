"""Scripts that solve tasks of MiniWoB++ from what an agent sees: the goal and the screen's elements."""

from __future__ import annotations

import re
from collections.abc import Callable

from mobilerl.envs.base import Action, Type
from mobilerl.policy.screen import Screen
from mobilerl.suites.miniwob.scripts import (
    Moves,
    Script,
    fields,
    fill,
    find,
    first,
    matched,
    names,
    press,
    quoted,
    scroll_to,
    search,
    swipe_up,
    tap,
)

RESULTS = 3
"""Results on a page of the search engine."""
SCRIPTS: dict[str, Callable[[str, Screen], Script]] = {}
"""Scripts by the name of the task."""


def solves(*tasks: str) -> Callable[[Callable[[str, Screen], Script]], Callable[[str, Screen], Script]]:
    def register(script: Callable[[str, Screen], Script]) -> Callable[[str, Screen], Script]:
        SCRIPTS.update(dict.fromkeys(tasks, script))
        return script

    return register


class Oracle:
    """Solves one episode of a task. `act` raises LookupError where the script does not fit the page, which is a bug."""

    def __init__(self, template: str) -> None:
        if template not in SCRIPTS:
            raise LookupError(f"the oracle has no script for {template}")
        self._make, self._script = SCRIPTS[template], None  # type: Callable[[str, Screen], Script], Script | None

    def act(self, goal: str, screen: Screen) -> Action:
        try:
            if self._script is None:
                self._script = self._make(goal, screen)
                return next(self._script)
            return self._script.send(screen)
        except StopIteration:
            raise LookupError(f"the page goes on after all that the oracle has done for: {goal}") from None


# --- buttons, links and boxes -------------------------------------------------------------------------------------


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


def submit(screen: Screen, name: str = "Submit") -> Moves:
    screen = yield from scroll_to(screen, name)
    return (yield from press(screen, name))


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


# --- fields --------------------------------------------------------------------------------------------------------


@solves("enter-text", "enter-text-dynamic")
def enter_text(goal: str, screen: Screen) -> Script:
    screen = yield from fill(screen, 0, quoted(goal)[0])
    yield from submit(screen)


@solves("enter-text-2")
def enter_cased(goal: str, screen: Screen) -> Script:
    text = quoted(goal)[0]
    screen = yield from fill(screen, 0, text.upper() if "upper" in goal else text.lower())
    yield from submit(screen)


@solves("enter-password")
def enter_password(goal: str, screen: Screen) -> Script:
    for number in range(2):
        screen = yield from fill(screen, number, quoted(goal)[0])
    yield from submit(screen)


@solves("enter-date")
def enter_date(goal: str, screen: Screen) -> Script:
    month, day, year = matched(r"(\d+)/(\d+)/(\d+)", goal)
    screen = yield from fill(screen, 0, f"{year}-{month}-{day}")
    yield from submit(screen)


@solves("enter-time")
def enter_time(goal: str, screen: Screen) -> Script:
    hour, minute, half = matched(r"(\d+):(\d+) ([AP])M", goal)
    screen = yield from fill(screen, 0, f"{int(hour) % 12 + 12 * (half == 'P'):02d}:{minute}")
    yield from submit(screen)


@solves("focus-text")
def focus_text(goal: str, screen: Screen) -> Script:
    yield tap(fields(screen)[0])


@solves("focus-text-2")
def focus_numbered(goal: str, screen: Screen) -> Script:
    (number,) = matched(r"(\d)", goal)
    yield tap(fields(screen)[int(number) - 1])


@solves("login-user", "login-user-popup")
def login(goal: str, screen: Screen) -> Script:
    button = "OK" if search(screen, "OK") else "Login"
    for number, text in enumerate(quoted(goal)[:2]):
        screen = yield tap(fields(screen)[number])
        if search(screen, "Cancel"):  # of a pop-up, which takes the focus
            screen = yield from press(screen, "Cancel")
            screen = yield tap(fields(screen)[number])
        screen = yield Type(text)
    yield from press(screen, button)


@solves("choose-list")
def choose_list(goal: str, screen: Screen) -> Script:
    (name,) = matched(r"Select (.*) from the list", goal)
    lists = [e for e in screen.elements if e.cls == "Spinner"]
    screen = yield tap(lists[0])
    screen = yield tap(first(e for e in screen.elements if e.text == name and e.cls == "Button"))
    yield from submit(screen)


@solves("simple-arithmetic")
def simple_arithmetic(goal: str, screen: Screen) -> Script:
    problem = first(e for e in screen.elements if e.text.endswith("=")).text
    left, sign, right = matched(r"(-?\d+) (\S) (-?\d+)", problem)
    screen = yield from fill(screen, 0, str(_calculate(int(left), sign, int(right))))
    yield from submit(screen)


def _calculate(left: int, sign: str, right: int) -> int:
    return {"+": left + right, "-": left - right, "x": left * right, "*": left * right}[sign]


@solves("simple-algebra")
def simple_algebra(goal: str, screen: Screen) -> Script:
    equation = first(e for e in screen.elements if "= " in e.text).text
    left, sign, right, result = matched(r"(\S+) (\S) (\S+) = (-?\d+)", equation)
    for x in range(-500, 501):
        values = [x if side == "x" else int(side) for side in (left, right)]
        if _calculate(values[0], sign, values[1]) == int(result):
            screen = yield from fill(screen, 0, str(x))
            break
    yield from submit(screen)


@solves("read-table")
def read_table(goal: str, screen: Screen) -> Script:
    (label,) = matched(r"value of (.*) into", goal)
    screen = yield from fill(screen, 0, _beside(screen, label))
    yield from submit(screen)


@solves("read-table-2")
def read_labels(goal: str, screen: Screen) -> Script:
    labels = [e.text.removesuffix(":") for e in screen.elements if e.text.endswith(":")]
    for number, label in enumerate(labels):
        screen = yield from fill(screen, number, _beside(screen, label))
    yield from submit(screen)


def _beside(screen: Screen, label: str) -> str:
    texts = [e.text for e in screen.elements]
    return texts[texts.index(label) + 1]


@solves("find-word")
def find_word(goal: str, screen: Screen) -> Script:
    (number,) = matched(r"(\d+)\w\w word", goal)
    word = screen.elements[0].text.split()[int(number) - 1]
    screen = yield from fill(screen, 0, re.sub(r"[,.]", "", word))
    yield from submit(screen)


@solves("guess-number")
def guess_number(goal: str, screen: Screen) -> Script:
    low, high = 0, 9
    while True:
        guess = (low + high) // 2
        screen = yield from fill(screen, 0, str(guess))
        screen = yield from submit(screen)
        said = " ".join(e.text for e in screen.elements)
        low, high = (guess + 1, high) if "higher" in said else (low, guess - 1)


@solves("multi-orderings")
def fill_labels(goal: str, screen: Screen) -> Script:
    genre, director, year = matched(r"for (.*) movies directed by (.*) from year (\d+)", goal)
    wanted = {"Genre": genre, "Director": director, "Year": year}
    labels = [e.text for e in screen.elements if e.text in wanted]
    for number, label in enumerate(labels):
        screen = yield from fill(screen, number, wanted[label])
    while not (buttons := [e for e in screen.elements if e.text in ("Search", "Submit") and "click" in e.actions]):
        screen = yield swipe_up(screen)
    yield tap(buttons[-1])


# --- lists and pages -----------------------------------------------------------------------------------------------


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
