"""Scripts for tasks of fields."""

from __future__ import annotations

import re

from mobilerl.envs.base import Type
from mobilerl.policy.screen import Screen
from mobilerl.suites.miniwob.scripts import (
    Script,
    fields,
    fill,
    first,
    matched,
    press,
    quoted,
    search,
    solves,
    submit,
    swipe_up,
    tap,
)


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
