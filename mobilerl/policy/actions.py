"""Actions as text: responses, descriptions in words, swipes, and the possible actions on a screen.

Responses are parsed in `mobilerl.policy.parsing`.
"""

from __future__ import annotations

from itertools import product
from typing import Literal

from mobilerl.envs.base import COORD_MAX, Action, Finish, Invalid, Launch, LongPress, Swipe, Tap, Type
from mobilerl.policy.grammar import quote
from mobilerl.policy.screen import Screen, shorten

Grounding = Literal["box", "point", "mark"]
"""How a response refers to an element: by its box, a point on it, or its mark in the list."""

Direction = Literal["up", "down", "left", "right"]
Distance = Literal["short", "medium", "long"]

MAX_DESCRIBED = 200
"""Maximum characters of a name or a typed text in a description."""
DISTANCES: dict[Distance, int] = {"short": 1, "medium": 2, "long": 10}
"""Length of a swipe in tenths of the screen's width."""
OFFSETS: dict[Direction, tuple[float, float]] = {"up": (0, -2), "down": (0, 2), "left": (-2.5, 0), "right": (2.5, 0)}
"""Movement of the finger (x, y) per unit of length."""
MIDDLE = COORD_MAX // 2
"""Center of the screen in 0-999, where a swipe without an element starts."""


def format_response(action: Action, screen: Screen, grounding: Grounding, thought: str | None = None) -> str:
    """Writes the response that `parse_response` reads as `action`, moved to the center of the element it hits.

    Box grounding writes the box of the smallest element around the point (an empty box if there is none). Raises
    ValueError for Invalid and, with mark grounding, for a point outside all marked elements.
    """
    think = ""
    if thought is not None:
        if "</think>" in thought:
            raise ValueError("format_response: the thought contains </think>; remove it")
        think = f"<think>{thought}</think>"
    return f"{think}<answer>{format_action(action, screen, grounding)}</answer>"


def format_action(action: Action, screen: Screen, grounding: Grounding) -> str:
    """Writes the call of a response, without tags. Raises the same errors as `format_response`."""
    match action:
        case Tap(x, y):
            return f'do(action="Tap", element={_element(x, y, screen, grounding)})'
        case LongPress(x, y):
            return f'do(action="Long Press", element={_element(x, y, screen, grounding)})'
        case Type(text):
            return f'do(action="Type", text={quote(text)})'
        case Launch(app):
            return f'do(action="Launch", app={quote(app)})'
        case Swipe(x, y, x2, y2) if grounding == "point":
            return f'do(action="Swipe", start=[{x},{y}], end=[{x2},{y2}])'
        case Swipe():
            return _format_swipe(action, screen, grounding)
        case Finish(message):
            return f"finish(message={quote(message)})"
        case Invalid(reason):
            raise ValueError(f"format_action: an Invalid action ({reason}) has no written form")
    return f'do(action="{type(action).__name__}")'


def _element(x: int, y: int, screen: Screen, grounding: Grounding) -> str:
    if grounding == "point":
        return f"[{x},{y}]"
    element = screen.at(x, y, marked_only=grounding == "mark")
    if grounding == "box":
        x1, y1, x2, y2 = element.box if element else (x, y, x, y)
        return f"[{x1},{y1},{x2},{y2}]"
    if element is None:
        raise ValueError(f"format_action: no marked element at ({x}, {y}); use box or point grounding")
    return f"<{element.mark}>"


def _format_swipe(swipe: Swipe, screen: Screen, grounding: Grounding) -> str:
    """Writes the nearest direction and distance, on the element with this center or the one around this point."""
    direction, distance = nearest_swipe(swipe, screen.width, screen.height)
    call = f'do(action="Swipe", direction="{direction}", dist="{distance}"'
    if max(abs(swipe.x - MIDDLE), abs(swipe.y - MIDDLE)) <= 1:
        return call + ")"
    for e in screen.elements:
        if e.mark is not None and e.centre == (swipe.x, swipe.y):
            written = f"<{e.mark}>" if grounding == "mark" else "[{},{},{},{}]".format(*e.box)
            return f"{call}, element={written})"
    return f"{call}, element={_element(swipe.x, swipe.y, screen, grounding)})"


def describe(action: Action, screen: Screen) -> str:
    """Describes an action in words, with the element it touches, for history lines and for people."""
    match action:
        case Tap(x, y) | LongPress(x, y):
            element = screen.at(x, y)
            # The text of a merged row is "title|detail|detail", of which the title suffices.
            name = (element.text.split("|")[0] or element.role) if element else "nothing"
            return f"{'tap' if isinstance(action, Tap) else 'hold'} {shorten(name, MAX_DESCRIBED)}"
        case Type(text):
            return f"type {shorten(text, MAX_DESCRIBED)}"
        case Launch(app):
            return f"open {app}"
        case Swipe():
            return f"swipe {nearest_swipe(action, screen.width, screen.height)[0]}"
        case Finish(message):
            return f"finish {message}".strip()
    return action.kind


def swipe_from(x: int, y: int, direction: Direction, distance: Distance, width: int, height: int) -> Swipe:
    """MobileRL's swipe, which starts at (x, y) in 0-999 and moves in `direction`, at most to the edge.

    It moves 2 units up or down or 2.5 units sideways, where a unit is int(width / 10) px times 10 (long), 2 (medium) or
    1 (short). `width` and `height` are the size of the screen in px.
    """
    length = width // 10 * DISTANCES[distance]
    dx, dy = OFFSETS[direction]
    x2 = x + round(dx * length * COORD_MAX / width)
    y2 = y + round(dy * length * COORD_MAX / height)
    return Swipe(x, y, min(max(x2, 0), COORD_MAX), min(max(y2, 0), COORD_MAX))


def nearest_swipe(swipe: Swipe, width: int, height: int) -> tuple[Direction, Distance]:
    """Direction and distance of the swipe with the same start whose end is nearest to that of `swipe`."""

    def miss(choice: tuple[Direction, Distance]) -> float:
        other = swipe_from(swipe.x, swipe.y, *choice, width, height)
        return ((other.x2 - swipe.x2) * width) ** 2 + ((other.y2 - swipe.y2) * height) ** 2

    return min(product(OFFSETS, DISTANCES), key=miss)


def candidates(screen: Screen) -> list[Action]:
    """The action space A(P) of ReachAgent 4.2: taps and typing at element centers, scrolls, and completion.

    A scroll starts at the element's center and covers a quarter of its width or height. `Type("")` stands for typing
    any text and `Finish("")` for finishing with any message.
    """
    actions: list[Action] = []
    for e in screen.elements:
        x, y = e.centre
        if "click" in e.actions or "edit" in e.actions:
            actions.append(Tap(x, y))
        if "edit" in e.actions:
            actions.append(Type(""))
        if "scroll" in e.actions:
            x1, y1, x2, y2 = e.box
            dx, dy = (x2 - x1) // 4, (y2 - y1) // 4
            actions += [Swipe(x, y, x, y - dy), Swipe(x, y, x, y + dy)]
            actions += [Swipe(x, y, x - dx, y), Swipe(x, y, x + dx, y)]
    actions.append(Finish(""))
    return list(dict.fromkeys(actions))
