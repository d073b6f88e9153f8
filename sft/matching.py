"""Whether a proposed action does what the recorded one does: the filter of stage 2, by kind of action.

| recorded | a proposal of the same kind matches if |
|---|---|
| tap, long press on an element | it hits the same one, not a smaller one inside it |
| tap, long press on none | it hits none either, at most `MARGIN` away, as in the evaluation of Android in the Wild |
| swipe | the finger moves in the same of four directions |
| type | the texts have a token F1 of at least `TEXT_F1` |
| launch | the names are equal but for case, spaces and punctuation |
| finish | the answers are equal but for case; where none was recorded, any but `infeasible` |
| back, home, enter, wait | always |
"""

from __future__ import annotations

import math
import re
from collections import Counter

from mobilerl.envs.base import COORD_MAX, Action, Finish, Launch, LongPress, Swipe, Tap, Type, Wait
from mobilerl.policy.actions import nearest_swipe
from mobilerl.policy.formats.base import INFEASIBLE
from mobilerl.policy.screen import Element, Screen

MARGIN = 0.14
"""Greatest distance of a touch, where the screen is 1 wide and 1 high."""
TEXT_F1 = 0.8
"""Least F1 of two texts' words."""


def matches(proposed: Action, recorded: Action, screen: Screen) -> bool:
    """Whether the proposed action matches the recorded one on this screen."""
    match recorded, proposed:
        case (Tap(u, v), Tap(x, y)) | (LongPress(u, v), LongPress(x, y)):
            target = _target(screen, u, v)
            near = target is not None or math.dist((x, y), (u, v)) <= MARGIN * COORD_MAX
            return near and _target(screen, x, y) is target
        case Swipe(), Swipe():
            a, b = (nearest_swipe(swipe, screen.width, screen.height)[0] for swipe in (recorded, proposed))
            return a == b
        case Type(a), Type(b):
            return token_f1(a, b) >= TEXT_F1
        case Launch(a), Launch(b):
            return _letters(a) == _letters(b)
        case Finish(""), Finish(b):
            return _plain(b) != INFEASIBLE
        case Finish(a), Finish(b):
            return _plain(a) == _plain(b)
        case Wait(), Wait():
            return True
    return proposed == recorded


def token_f1(a: str, b: str) -> float:
    """Harmonic mean of the shares of each text's words that are in the other, without regard to case and punctuation.

    Texts without words must be equal.
    """
    left, right = (Counter(re.findall(r"\w+", text.casefold())) for text in (a, b))
    if not left or not right:
        return float(_plain(a) == _plain(b))
    return 2 * (left & right).total() / (left.total() + right.total())


def _target(screen: Screen, x: int, y: int) -> Element | None:
    """The smallest element at a point, preferably one that can be acted on, and none that can only be scrolled: it may
    fill the screen."""
    inside = [e for e in screen.elements if e.contains(x, y) and e.actions != ("scroll",)]
    return min(inside, key=lambda e: (e.mark is None, e.area), default=None)


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name.casefold()) or _plain(name)


def _plain(text: str) -> str:
    return text.strip().casefold()
