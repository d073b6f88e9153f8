"""Parses a model's response into an action.

A response is `<think>...</think><answer>CALL</answer>`, where CALL is one of

    do(action="Tap", element=E)          do(action="Long Press", element=E)
    do(action="Type", text="...")        do(action="Launch", app="...")
    do(action="Swipe", direction="up|down|left|right", dist="short|medium|long", element=E)
    do(action="Back")  do(action="Home")  do(action="Enter")  do(action="Wait")
    finish(message="...")

E is a box [x1,y1,x2,y2] or a point [x,y] in 0-999, or the mark <7> of a listed element. A Swipe without an element
starts in the middle of the screen; with point grounding it may also be written start=[x,y], end=[x,y].

What the grammar rejects but MobileRL's own agent runs is read as there: decimals, and unescaped quotes in a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard, TypeVar

from mobilerl.envs.base import (
    COORD_MAX,
    Action,
    Back,
    Enter,
    Finish,
    Home,
    Invalid,
    Launch,
    LongPress,
    Swipe,
    Tap,
    Type,
    Wait,
)
from mobilerl.policy.actions import DISTANCES, MIDDLE, OFFSETS, Grounding, swipe_from
from mobilerl.policy.grammar import Call, GrammarError, Mark, Value, excerpt, parse_call
from mobilerl.policy.literals import read_call
from mobilerl.policy.screen import Screen

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
"""Required and optional arguments of each action."""
_DRAG_ARGUMENTS: tuple[frozenset[str], frozenset[str]] = (frozenset({"start", "end"}), frozenset())

_Choice = TypeVar("_Choice", bound=str)

_ANSWER = re.compile(r"<ans(?:wer)?>")
_ANSWER_END = re.compile(r"</ans(?:wer)?>")


@dataclass(frozen=True, slots=True)
class Response:
    thought: str
    action: Action


@dataclass(frozen=True, slots=True)
class _View:
    """Context for resolving the elements of a call."""

    screen: Screen | None
    grounding: Grounding
    width: int
    height: int


def parse_response(
    text: str,
    screen: Screen | None,
    grounding: Grounding,
    width: int,
    height: int,
    revise: Callable[[Call], Call] = lambda call: call,
) -> Response:
    """Parses a response; text that cannot be parsed gives `Invalid(reason)`. Never raises.

    The length of a swipe depends on `width` and `height` (px); `screen` is needed only for marks. `revise` changes a
    call before it is understood, and may raise GrammarError.
    """
    thought, code, tagged = split_response(text)
    try:
        action = _build(revise(_call(code)), _View(screen, grounding, width, height))
    except GrammarError as problem:
        action = Invalid(str(problem) if tagged else "there is no <answer> tag")
    return Response(thought, action)


def split_response(text: str) -> tuple[str, str, bool]:
    """Returns thought, code, and whether there was an answer tag (without one, the code is the text after the thought).

    Tags may be unclosed (`</answer>` is a stop string), `<think>` may be missing (some chat templates put it into the
    prompt), and the code may be in a ``` block, of which the last line counts.
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
    code = code.removeprefix("<|begin_of_box|>").removesuffix("<|end_of_box|>").strip()
    if "```" not in code or code.startswith(("do(", "finish(")):
        return code
    lines = [line.strip() for line in code.split("```")[1].split("\n")]
    return next((line for line in reversed(lines) if line), "")


def _call(code: str) -> Call:
    """Parses a call by the grammar and, if it is outside of it, as MobileRL's agent does."""
    try:
        return parse_call(code)
    except GrammarError:
        try:
            written = read_call(code, free=("text", "message"))
        except GrammarError:
            written = None
        if written is None or code[written.end :].strip():
            raise
        return Call(written.name, written.arguments)


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


def _one_of(choices: Mapping[_Choice, object], key: str, value: str) -> _Choice:
    for choice in choices:
        if choice == value:
            return choice
    raise GrammarError(f'the argument "{key}" must be one of {", ".join(choices)}')


def _point(value: Value, view: _View) -> tuple[int, int]:
    """Center of an element argument, in 0-999."""
    if view.grounding == "mark":
        number = value.number if isinstance(value, Mark) else value
        if not isinstance(number, int):
            raise GrammarError("the element must be the mark of a listed element, as in element=<7>")
        element = view.screen.find(number) if view.screen else None
        if element is None:
            raise GrammarError(f"element <{number}> is not on the screen")
        return element.centre
    if not is_box(value):
        form = "[x1,y1,x2,y2]" if view.grounding == "box" else "[x,y]"
        raise GrammarError(f"the element must be written {form}")
    if not all(0 <= v <= COORD_MAX + 1 for v in value):  # models also write 1000 for the edge
        raise GrammarError(f"a coordinate is not within 0-{COORD_MAX}")
    return _middle(value[0], value[-2]), _middle(value[1], value[-1])


def is_box(value: object) -> TypeGuard[Sequence[float]]:
    """Whether a value is four numbers, or the two of a point."""
    numbers = value if isinstance(value, tuple | list) else ()
    return len(numbers) in (2, 4) and all(type(v) in (int, float) for v in numbers)


def _middle(low: float, high: float) -> int:
    return int(min(low, COORD_MAX) + min(high, COORD_MAX)) // 2
