"""Finds and taps what a phone shows, and finds every kind of screen by touching everything that can be touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mobilerl.envs.phone import panels, telephony
from mobilerl.envs.phone.app import Page
from mobilerl.envs.phone.console import State, restore_snapshot, take_snapshot
from mobilerl.envs.phone.languages.language import Plural, Words
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.popups import CATALOGUE
from mobilerl.envs.phone.ui import Node

OFTEN = 6
"""How many widgets of one look and icon are touched on a screen: rows of a list lead to screens of one kind."""


def node(phone: Phone, name: str) -> Node:
    return next(n for n in phone.tree().window.walk() if name in (n.text, n.desc, n.hint))


def tap(phone: Phone, name: str) -> None:
    phone.tap(*middle(node(phone, name)))


class Recorder(dict[str, str | Plural]):
    """Words of a language that note which of them a screen asks for."""

    def __init__(self, words: Words) -> None:
        super().__init__(words)
        self.asked: set[str] = set()
        self.new: set[str] = set()

    def get(self, english: str, default: Any = None) -> Any:
        if english not in self.asked:
            self.new.add(english)
        return super().get(english, default)


def walk(phone: Phone, words: Recorder) -> Iterator[Phone]:
    """Takes the phone to screens, and goes on from those with a word of the interface that was on none before. `words`
    are those of the phone's language; in the end `words.asked` are all that were met.
    """
    waiting: list[State] = []

    def arrived() -> Phone:
        phone.tree()
        if words.new:
            words.asked |= words.new
            words.new.clear()
            waiting.append(take_snapshot(phone))
        return phone

    for _ in starts(phone):
        yield arrived()
    while waiting:
        state = waiting.pop()
        restore_snapshot(phone, state)
        for place, node in enumerate(touchable(phone)):
            for long in (False, True)[: 1 + (node.on_long is not None)]:
                restore_snapshot(phone, state)
                (phone.long_press if long else phone.tap)(*middle(touchable(phone)[place]))
                yield arrived()
        for typed in ("", " a"):
            restore_snapshot(phone, state)
            if phone.typing:
                phone.text(typed)
                phone.enter()
                yield arrived()


def starts(phone: Phone) -> Iterator[None]:
    fresh = take_snapshot(phone)
    yield
    for package in phone.apps:
        restore_snapshot(phone, fresh)
        phone.launch(package)
        yield
    for name in (panels.SHADE, panels.QUICK_SETTINGS, panels.RECENTS, panels.CLIPPER):
        phone.show_panel(Page(name))
        yield
    telephony.ring(phone, "20 30 40")
    yield
    telephony.answer(phone)
    yield
    for popup in CATALOGUE:
        restore_snapshot(phone, fresh)
        phone.launch("com.android.tasks")
        phone.popup = popup
        phone.invalidate()
        yield


def touchable(phone: Phone) -> list[Node]:
    """What can be touched, a few of each look and icon."""
    tree, seen, chosen = phone.tree(), {}, []
    for node in tree.window.walk():
        left, top, right, bottom = node.bounds
        if (
            (node.clickable or node.on_long)
            and node.enabled
            and tree.window.bounds[1] <= top < bottom <= phone.size_dp[1]
        ):
            icons = tuple(n.icon for n in node.walk())
            look = (node.look, node.look in ("text_button", "button", "tab") and node.text, *icons[:3])
            seen[look] = seen.get(look, 0) + 1
            if seen[look] <= OFTEN:
                chosen.append(node)
    return chosen


def middle(node: Node) -> tuple[float, float]:
    left, top, right, bottom = node.bounds
    return (left + right) / 2, (top + bottom) / 2
