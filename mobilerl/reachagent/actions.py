"""Actions of a page graph, the action space A(P) of a screen, and their translation to and from device actions.

ReachAgent acts on elements: click(name, box), input(name, box, text), scroll(box, direction), complete. long_click and
back are added because some pages of a phone cannot be opened otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from mobilerl.envs.base import Action, Back, Finish, LongPress, Swipe, Tap, Type
from mobilerl.policy.screen import Box, Element, Screen

Kind = Literal["click", "long_click", "input", "scroll", "back", "complete"]
Direction = Literal["up", "down", "left", "right"]
KINDS: tuple[str, ...] = get_args(Kind)
DIRECTIONS: tuple[str, ...] = get_args(Direction)
BOXED = frozenset({"click", "long_click", "input", "scroll"})


@dataclass(frozen=True, slots=True)
class PageAction:
    """One action on a page. `box` is x1, y1, x2, y2 in 0-999; None for back and complete.

    `direction` is that of the finger, `text` the text to type ("" in an action space stands for any text), and `name`
    the text of the element, which may be "".
    """

    kind: Kind
    name: str = ""
    box: Box | None = None
    direction: str = ""
    text: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"action kind is {self.kind!r}; choose one of {', '.join(KINDS)}")
        if (self.box is not None) != (self.kind in BOXED):
            raise ValueError(f"{self.kind}: click, long_click, input and scroll have a box, others have none")
        if self.kind == "scroll" and self.direction not in DIRECTIONS:
            raise ValueError(f"scroll direction is {self.direction!r}; choose one of {', '.join(DIRECTIONS)}")

    @property
    def slot(self) -> PageAction:
        """The action as in an action space, where inputs have no text."""
        return replace(self, text="") if self.text else self

    @property
    def centre(self) -> tuple[int, int]:
        """Center of the box, rounded down."""
        assert self.box is not None
        x1, y1, x2, y2 = self.box
        return (x1 + x2) // 2, (y1 + y2) // 2

    def to_json(self) -> dict[str, Any]:
        """The action as JSON values, without empty fields."""
        values = {"kind": self.kind, "name": self.name, "box": self.box and list(self.box)}
        values |= {"direction": self.direction, "text": self.text}
        return {key: value for key, value in values.items() if value}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> PageAction:
        """Inverse of `to_json`. Raises ValueError or TypeError for anything else."""
        box = values.get("box")
        if box is not None and (len(box) != 4 or not all(isinstance(v, int) for v in box)):
            raise ValueError(f"{box!r} is not a box")
        return cls(**{**values, "box": box and tuple(box)})


BACK = PageAction("back")
COMPLETE = PageAction("complete")


def action_space(screen: Screen, hints: Mapping[Box, str]) -> tuple[PageAction, ...]:
    """Action space A(P): the actions of all elements in screen order, then back and complete.

    A field has input and click, a list four scrolls. `hints` are names for fields, whose texts change.
    """
    actions = [action for element in screen.elements for action in _of_element(element, hints.get(element.box, ""))]
    return tuple(dict.fromkeys([*actions, BACK, COMPLETE]))


def _of_element(element: Element, hint: str) -> list[PageAction]:
    name = hint or element.text.split("|")[0]
    actions: list[PageAction] = []
    if "edit" in element.actions:
        actions.append(PageAction("input", name, element.box))
    if "click" in element.actions or "edit" in element.actions:
        actions.append(PageAction("click", name, element.box))
    if "long-click" in element.actions:
        actions.append(PageAction("long_click", name, element.box))
    if "scroll" in element.actions:
        actions += [PageAction("scroll", name, element.box, d) for d in DIRECTIONS]
    return actions


def device_actions(action: PageAction) -> tuple[Action, ...]:
    """Converts a page action to device actions. An input is a tap on the field followed by typing.

    A scroll starts at the center and covers a quarter of the box (ReachAgent 4.2).
    """
    if action.box is None:
        return (Back(),) if action.kind == "back" else (Finish(),)
    x, y = action.centre
    match action.kind:
        case "click":
            return (Tap(x, y),)
        case "long_click":
            return (LongPress(x, y),)
        case "input":
            return (Tap(x, y), Type(action.text))
    x1, y1, x2, y2 = action.box
    dx, dy = (x2 - x1) // 4, (y2 - y1) // 4
    ends = {"up": (x, y - dy), "down": (x, y + dy), "left": (x - dx, y), "right": (x + dx, y)}
    return (Swipe(x, y, *ends[action.direction]),)


SAME_TEXT = 0.8
"""Token F1 above which two typed texts count as equal (ReachAgent 4.4)."""


def token_f1(predicted: str, golden: str) -> float:
    """F1 of the words of two texts as multisets, ignoring case; 1 for two empty texts."""
    ours, theirs = predicted.casefold().split(), golden.casefold().split()
    if not ours or not theirs:
        return float(ours == theirs)
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs))


def same_action(predicted: PageAction, golden: PageAction) -> bool:
    """Whether both use the same element in the same way; typed texts may differ slightly."""
    return predicted.slot == golden.slot and (
        predicted.kind != "input" or token_f1(predicted.text, golden.text) > SAME_TEXT
    )


def from_device(action: Action, space: Sequence[PageAction], focused: Box | None = None) -> PageAction | None:
    """Maps an agent's action to an action of an action space; None if there is none.

    A touch maps to the smallest element around it that accepts it, a swipe to the smallest list, and typing to the
    field with the focus: `focused`, or the only field of the page.
    """
    match action:
        case Tap():
            return _around(action.x, action.y, [a for a in space if a.kind == "click"])
        case LongPress():
            return _around(action.x, action.y, [a for a in space if a.kind == "long_click"])
        case Swipe():
            dx, dy = action.x2 - action.x, action.y2 - action.y
            direction = ("left" if dx < 0 else "right") if abs(dx) > abs(dy) else ("up" if dy < 0 else "down")
            return _around(action.x, action.y, [a for a in space if a.kind == "scroll" and a.direction == direction])
        case Type():
            fields = [a for a in space if a.kind == "input" and focused in (None, a.box)]
            return replace(fields[0], text=action.text) if len(fields) == 1 else None
        case Back():
            return BACK if BACK in space else None
        case Finish():
            return COMPLETE if COMPLETE in space else None
    return None


def _around(x: int, y: int, choices: Sequence[PageAction]) -> PageAction | None:
    def area(a: PageAction) -> int:
        x1, y1, x2, y2 = a.box or (0, 0, 0, 0)
        return (x2 - x1) * (y2 - y1)

    inside = [a for a in choices if a.box and a.box[0] <= x <= a.box[2] and a.box[1] <= y <= a.box[3]]
    return min(inside, key=area, default=None)
