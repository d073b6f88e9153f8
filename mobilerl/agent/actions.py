"""A model's reply -> Action, and back.

A reply is `<think>...</think><answer>CALL</answer>`, where CALL is one of

    do(action="Tap", element=E)          do(action="Long Press", element=E)
    do(action="Type", text="...")        do(action="Launch", app="...")
    do(action="Swipe", direction="up|down|left|right", dist="short|medium|long", element=E)
    do(action="Back")  do(action="Home")  do(action="Enter")  do(action="Wait")
    finish(message="...")

E is a box [x1,y1,x2,y2] or a point [x,y] in 0-999, or the mark <7> of a listed element. A Swipe without an element
starts in the middle of the screen; with point grounding it may also be written start=[x,y], end=[x,y].
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import Literal

from envs.base import COORD_MAX, Action, Back, Enter, Finish, Home, Invalid, Launch, LongPress, Swipe, Tap, Type, Wait
from mobilerl.agent.grammar import Call, GrammarError, Mark, Value, excerpt, parse_call, quote
from mobilerl.agent.screen import Screen, shortened

Grounding = Literal["box", "point", "mark"]
Direction = Literal["up", "down", "left", "right"]
Distance = Literal["short", "medium", "long"]

DISTANCES: dict[str, int] = {"short": 1, "medium": 2, "long": 10}
"""How many units of a tenth of the screen's width a swipe is made of."""

OFFSETS: dict[str, tuple[float, float]] = {"up": (0, -2), "down": (0, 2), "left": (-2.5, 0), "right": (2.5, 0)}
"""What the finger moves per unit, in units of a tenth of the screen's width."""

MIDDLE = COORD_MAX // 2

LONGEST_TOLD = 200
"""Characters of a name or a typed text in a description."""

_PLAIN: dict[str, type] = {"Back": Back, "Home": Home, "Enter": Enter, "Wait": Wait}
_ALIASES = {"Press Back": "Back", "Press Home": "Home", "Press Enter": "Enter"}
_ARGUMENTS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "Tap": (frozenset({"element"}), frozenset()),
    "Long Press": (frozenset({"element"}), frozenset()),
    "Type": (frozenset({"text"}), frozenset()),
    "Launch": (frozenset({"app"}), frozenset()),
    "Swipe": (frozenset({"direction"}), frozenset({"dist", "element"})),
    "finish": (frozenset(), frozenset({"message"})),
} | {name: (frozenset(), frozenset()) for name in _PLAIN}
"""Required and optional arguments by action."""
_DRAG_ARGUMENTS = (frozenset({"start", "end"}), frozenset())

_ANSWER = re.compile(r"<ans(?:wer)?>")
_ANSWER_END = re.compile(r"</ans(?:wer)?>")


@dataclass(frozen=True, slots=True)
class Reply:
    thought: str
    action: Action


@dataclass(frozen=True, slots=True)
class _View:
    """What an element in a call refers to."""

    screen: Screen | None
    grounding: Grounding
    width: int
    height: int


# --- reading -----------------------------------------------------------------------------------------------------


def parse_reply(text: str, screen: Screen | None, grounding: Grounding, width: int, height: int) -> Reply:
    """Reads a reply; whatever cannot be read is `Invalid(reason)`. Never raises, whatever the text.

    `width` and `height` (px) give a swipe its shape; `screen` is needed for marks only.
    """
    thought, code, tagged = split_reply(text)
    try:
        action = _build(parse_call(code), _View(screen, grounding, width, height))
    except GrammarError as problem:
        action = Invalid(str(problem) if tagged else "there is no <answer> tag")
    return Reply(thought, action)


def split_reply(text: str) -> tuple[str, str, bool]:
    """Thought, code, and whether an answer tag was there (without one, what follows the thought counts as code).

    Tags may be unclosed (`</answer>` is a stop string), `<think>` may be missing (some chat templates write it into
    the prompt), and the code may stand in a ``` block, of which the last line counts.
    """
    text, thought = text.strip(), ""
    if text.startswith("<think>"):
        text = text.removeprefix("<think>")
        thought, closed, rest = text.partition("</think>")
        if not closed:
            opening = _ANSWER.search(text)
            cut = opening.start() if opening else len(text)
            thought, rest = text[:cut], text[cut:]
        text = rest
    opening = _ANSWER.search(text)
    if opening:
        thought = thought or text[: opening.start()].strip().removesuffix("</think>")
        text = _ANSWER_END.split(text[opening.end() :], maxsplit=1)[0]
    return thought.strip(), _unfence(text.strip()), opening is not None


def _unfence(code: str) -> str:
    if "```" not in code or code.startswith(("do(", "finish(")):
        return code
    lines = [line.strip() for line in code.split("```")[1].split("\n")]
    return next((line for line in reversed(lines) if line), "")


def _build(call: Call, view: _View) -> Action:
    arguments = dict(call.arguments)
    name = "finish"
    if call.name == "do":
        name = _text(arguments, "action")
        name = _ALIASES.get(name, name)
        del arguments["action"]
    if call.name not in ("do", "finish") or name not in _ARGUMENTS or (call.name == "do" and name == "finish"):
        raise GrammarError(f'unknown action "{excerpt(name if call.name == "do" else call.name)}"')
    drag = name == "Swipe" and view.grounding == "point" and not {"start", "end"}.isdisjoint(arguments)
    required, optional = _DRAG_ARGUMENTS if drag else _ARGUMENTS[name]
    for key in sorted(arguments.keys() - required - optional):
        raise GrammarError(f'{name} has no argument "{excerpt(key)}"')
    for key in sorted(required - arguments.keys()):
        raise GrammarError(f'{name} needs the argument "{key}"')
    if drag:
        return Swipe(*_point(arguments["start"], view), *_point(arguments["end"], view))
    return _action(name, arguments, view)


def _action(name: str, arguments: dict[str, Value], view: _View) -> Action:
    match name:
        case "Tap":
            return Tap(*_point(arguments["element"], view))
        case "Long Press":
            return LongPress(*_point(arguments["element"], view))
        case "Type":
            return Type(_text(arguments, "text"))
        case "Launch":
            return Launch(_text(arguments, "app"))
        case "Swipe":
            x, y = _point(arguments["element"], view) if "element" in arguments else (MIDDLE, MIDDLE)
            direction = _one_of(OFFSETS, "direction", _text(arguments, "direction"))
            distance = _one_of(DISTANCES, "dist", _text(arguments, "dist") if "dist" in arguments else "medium")
            return swipe_from(x, y, direction, distance, view.width, view.height)
        case "finish":
            return Finish(_text(arguments, "message") if "message" in arguments else "")
    return _PLAIN[name]()


def _text(arguments: dict[str, Value], key: str) -> str:
    if key not in arguments:
        raise GrammarError(f'the argument "{key}" is missing')
    value = arguments[key]
    if not isinstance(value, str):
        raise GrammarError(f'the argument "{key}" must be a quoted text')
    return value


def _one_of(choices: dict[str, object], key: str, value: str) -> str:
    if value not in choices:
        raise GrammarError(f'the argument "{key}" must be one of {", ".join(choices)}')
    return value


def _point(value: Value, view: _View) -> tuple[int, int]:
    """Centre of what an element argument names, in 0-999."""
    if view.grounding == "mark":
        number = value.number if isinstance(value, Mark) else value
        if not isinstance(number, int):
            raise GrammarError("the element must be the mark of a listed element, as in element=<7>")
        element = view.screen.find(number) if view.screen else None
        if element is None:
            raise GrammarError(f"element <{number}> is not on the screen")
        return element.centre
    if not isinstance(value, tuple) or len(value) not in (2, 4):
        form = "[x1,y1,x2,y2]" if view.grounding == "box" else "[x,y]"
        raise GrammarError(f"the element must be written {form}")
    if not all(0 <= v <= COORD_MAX for v in value):
        raise GrammarError(f"a coordinate is not within 0-{COORD_MAX}")
    return (value[0] + value[-2]) // 2, (value[1] + value[-1]) // 2


def swipe_from(x: int, y: int, direction: Direction, distance: Distance, width: int, height: int) -> Swipe:
    """MobileRL's swipe: the finger goes down at (x, y) in 0-999 and moves in `direction`, at most to the edge.

    With unit = int(width / 10) px, x10 (long), x2 (medium) or x1 (short), it moves 2 units up or down, or 2.5 units
    sideways. `width` and `height` are the screen's, in px.
    """
    length = width // 10 * DISTANCES[distance]
    dx, dy = OFFSETS[direction]
    x2 = x + round(dx * length * COORD_MAX / width)
    y2 = y + round(dy * length * COORD_MAX / height)
    return Swipe(x, y, min(max(x2, 0), COORD_MAX), min(max(y2, 0), COORD_MAX))


# --- writing -----------------------------------------------------------------------------------------------------


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


def nearest_swipe(swipe: Swipe, width: int, height: int) -> tuple[Direction, Distance]:
    """Direction and distance of the swipe from the same start that ends nearest to where this one ends."""

    def miss(choice: tuple[str, str]) -> float:
        other = swipe_from(swipe.x, swipe.y, *choice, width, height)
        return ((other.x2 - swipe.x2) * width) ** 2 + ((other.y2 - swipe.y2) * height) ** 2

    return min(product(OFFSETS, DISTANCES), key=miss)


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
