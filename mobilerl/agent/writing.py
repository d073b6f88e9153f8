"""Action -> the reply that says it, and -> words for people. `mobilerl.agent.actions` reads replies."""

from __future__ import annotations

from typing import Literal

from envs.base import Action, Finish, Invalid, Launch, LongPress, Swipe, Tap, Type
from mobilerl.agent.grammar import quote
from mobilerl.agent.screen import Screen, shortened
from mobilerl.agent.swipes import MIDDLE, nearest_swipe

Grounding = Literal["box", "point", "mark"]
"""How a reply names an element: by its box, a point on it, or its mark in the list."""

LONGEST_TOLD = 200
"""Characters of a name or a typed text in a description."""


def format_reply(action: Action, screen: Screen, grounding: Grounding, thought: str | None = None) -> str:
    """The reply that `parse_reply` reads as `action`, moved to the centre of the element it hits.

    A box is that of the smallest element around the point (a box without extent where there is none). Raises
    ValueError for an action that cannot be written: Invalid, or a point on no marked element with mark grounding.
    """
    think = ""
    if thought is not None:
        if "</think>" in thought:
            raise ValueError("format_reply: the thought contains </think>; remove it")
        think = f"<think>{thought}</think>"
    return f"{think}<answer>{format_action(action, screen, grounding)}</answer>"


def format_action(action: Action, screen: Screen, grounding: Grounding) -> str:
    """The call alone. Raises as `format_reply` does."""
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
    """The direction and distance whose movement comes nearest, on the element with this centre or around this point."""
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
    """An action in words, naming the element it touches: what a history line or a person can use."""
    match action:
        case Tap(x, y) | LongPress(x, y):
            element = screen.at(x, y)
            # A merged row reads "title|detail|detail": its title is name enough.
            name = (element.text.split("|")[0] or element.role) if element else "nothing"
            return f"{'tap' if isinstance(action, Tap) else 'hold'} {shortened(name, LONGEST_TOLD)}"
        case Type(text):
            return f"type {shortened(text, LONGEST_TOLD)}"
        case Launch(app):
            return f"open {app}"
        case Swipe():
            return f"swipe {nearest_swipe(action, screen.width, screen.height)[0]}"
        case Finish(message):
            return f"finish {message}".strip()
    return action.kind
