"""Converts a UI dump (XML) to the compressed screen text that a model reads.

The compression is MobileRL's v4: texts inside a clickable node are merged into it with `|`, and nodes without text or
actions are dropped, as are nodes of at most 0.5 % of the screen's width or height.
"""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from mobilerl.envs.base import COORD_MAX
from mobilerl.policy.sanitize import escape_markup

ScreenStyle = Literal["mobilerl", "marks", "none"]

Box = tuple[int, int, int, int]

HEADER = "Screen size 999x999. Elements, one per line, with relative bounds [x1,y1,x2,y2]:"
UNREADABLE = "the list of screen elements could not be read"

MIN_SIDE = 0.005
"""Nodes whose width or height is at most this fraction of the screen's are dropped."""

MAX_TEXT = 1000
"""Maximum characters of an element's text, since a text field may hold all that a stuck policy typed in an episode."""

_BOUNDS = re.compile(r"\[(-?[0-9]{1,6}),(-?[0-9]{1,6})\]\[(-?[0-9]{1,6}),(-?[0-9]{1,6})\]")
_DETAIL_ENDS = re.compile(r"(?=\||, )|$")
_EDIT_CLASSES = ("EditText", "AutoComplete", "AutoCompleteTextView")
_ACTION_ATTRIBUTES = (("clickable", "click"), ("long-clickable", "long-click"), ("checkable", "check"))
_V4_ACTIONS = frozenset({"click", "long-click", "check"})
_V4_STATES = frozenset({"checked", "unchecked", "password", "selected"})


@dataclass(frozen=True, slots=True)
class Element:
    """One line of the screen text. `mark` numbers elements that can be acted on, from 1; it is None for plain text."""

    mark: int | None
    cls: str
    actions: tuple[str, ...]
    """Subset of click, long-click, check, edit, scroll."""
    states: tuple[str, ...]
    """Subset of checked, unchecked, password, selected, focused."""
    text: str
    box: Box
    """x1, y1, x2, y2 in 0-999, clipped to the screen."""
    depth: int
    """Number of listed elements that contain this one."""

    @property
    def centre(self) -> tuple[int, int]:
        """Center of the box, rounded down (ReachAgent 4.2)."""
        x1, y1, x2, y2 = self.box
        return (x1 + x2) // 2, (y1 + y2) // 2

    @property
    def area(self) -> int:
        x1, y1, x2, y2 = self.box
        return (x2 - x1) * (y2 - y1)

    @property
    def role(self) -> str:
        """One of field, list, switch and button, since class names are many, and obfuscated in some apps."""
        for action, word in (("edit", "field"), ("scroll", "list"), ("check", "switch")):
            if action in self.actions:
                return word
        return "button"

    def contains(self, x: int, y: int) -> bool:
        x1, y1, x2, y2 = self.box
        return x1 <= x <= x2 and y1 <= y <= y2


@dataclass(frozen=True, slots=True)
class Screen:
    """A parsed screen. If the dump could not be read, there are no elements and `error` says why."""

    elements: tuple[Element, ...]
    width: int
    height: int
    error: str = ""

    def find(self, mark: int) -> Element | None:
        return next((e for e in self.elements if e.mark == mark), None)

    def at(self, x: int, y: int, marked_only: bool = False) -> Element | None:
        """Smallest element that contains the point (0-999), preferably one that can be acted on; None without one."""
        inside = [e for e in self.elements if e.contains(x, y)]
        marked = [e for e in inside if e.mark is not None]
        return min(marked or ([] if marked_only else inside), key=lambda e: e.area, default=None)

    def render(self, style: ScreenStyle) -> str:
        """Renders the screen as text, with a newline after every line; "" for the style `none`.

        `mobilerl`: `Class;actions states;text;[x1,y1,x2,y2]`, indented by nesting, under a header.
        `marks`: `<mark>name<mark> detail<mark> role states`, where only fields and lists with a name have a role.
        """
        if style == "none":
            return ""
        if self.error:
            return UNREADABLE + "\n"
        if style == "marks":
            return "".join([_marks_line(e) for e in self.elements])
        return HEADER + "\n" + "".join([_v4_line(e) for e in self.elements])


def _marks_line(e: Element) -> str:
    """Writes `<mark>name<mark> detail<mark>, detail<mark> role states`.

    The mark is on both sides, because a small model finds what follows a known text, not what precedes it: the mark and
    the details after the name, the mark after a detail, and the name after the mark.
    """
    if e.mark is None:
        return " ".join([e.text, *e.states]) + "\n"
    mark = f"<{e.mark}>"
    name, _, details = e.text.partition("|")
    named = name and "edit" not in e.actions and "scroll" not in e.actions
    marked = _DETAIL_ENDS.sub(mark, details) if details else ""
    words = [f"{mark}{name or e.role}{mark}", marked, e.role if name and not named else "", *e.states]
    return " ".join([w for w in words if w]) + "\n"


def _v4_line(e: Element) -> str:
    words = [a for a in e.actions if a in _V4_ACTIONS] + [s for s in e.states if s in _V4_STATES]
    x1, y1, x2, y2 = e.box
    return f"{'    ' * e.depth}{e.cls};{' '.join(words)};{e.text};[{x1},{y1},{x2},{y2}]\n"


def mark_order(xml: str) -> random.Random:
    """RNG that orders the marks of a screen, seeded by its dump."""
    return random.Random(zlib.crc32(xml.encode(errors="replace")))


def parse_screen(xml: str, width: int, height: int, random_marks: bool = False) -> Screen:
    """Parses a uiautomator dump of a `width` x `height` px screen. Never raises: see `Screen.error`.

    Marks are numbered from the top or, with `random_marks`, in a random order seeded by the dump.
    """
    if "<!DOCTYPE" in xml:  # dumps have none, and entity expansion could exhaust memory
        return Screen((), width, height, error="unreadable UI dump: it declares a document type")
    parser = ET.XMLParser(target=_Collector(width, height, mark_order(xml) if random_marks else None))
    try:
        parser.feed(xml)
        elements = cast("tuple[Element, ...]", parser.close())  # what the target's `close` returns
        return Screen(elements, width, height)
    except (ET.ParseError, ValueError) as fault:  # ValueError: lone surrogates
        return Screen((), width, height, error=f"unreadable UI dump: {fault}")


@dataclass(slots=True)
class _Node:
    """An element under construction, to which children may still add."""

    cls: str
    actions: list[str]
    states: list[str]
    texts: dict[str, None]
    """Distinct texts, in order."""
    box: Box
    depth: int

    def operable(self) -> bool:
        """Whether the node itself reacts to touch; a check box that only shows the state of its row does not."""
        return bool(self.actions) and self.actions != ["check"]

    def absorb(self, child: _Node) -> None:
        self.texts |= child.texts
        if "check" not in self.actions:
            self.actions += child.actions
            self.states += [s for s in child.states if s not in self.states]


class _Collector:
    """ElementTree parser target that collects the kept nodes in document order, without building a tree."""

    def __init__(self, width: int, height: int, marks: random.Random | None) -> None:
        self._width, self._height, self._marks = width, height, marks
        self._kept: list[_Node] = []
        self._open: list[tuple[_Node | None, int]] = [(None, 0)]
        """For each open tag, the clickable node that absorbs the texts of its children, and their depth."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        host, depth = self._open[-1]
        node = self._read(attributes, depth)
        if node is not None:
            if host is not None and not node.operable():
                host.absorb(node)
            elif node.actions or node.texts:
                self._kept.append(node)
                depth += 1
                if node.operable():
                    host = node if "click" in node.actions and "scroll" not in node.actions else None
        self._open.append((host, depth))

    def end(self, tag: str) -> None:
        self._open.pop()

    def close(self) -> tuple[Element, ...]:
        numbers = list(range(1, 1 + sum(bool(n.actions) for n in self._kept)))
        if self._marks is not None:
            self._marks.shuffle(numbers)
        marks = iter(numbers)
        elements = []
        for n in self._kept:
            number = next(marks) if n.actions else None
            elements.append(
                Element(number, n.cls, tuple(n.actions), tuple(n.states), shorten("|".join(n.texts)), n.box, n.depth)
            )
        return tuple(elements)

    def _read(self, attributes: Mapping[str, str], depth: int) -> _Node | None:
        get = attributes.get
        box = self._box(get("bounds", ""))
        if box is None:
            return None
        cls = _clean(get("class", "").rpartition(".")[2])
        actions = []
        if get("enabled") != "false":  # a disabled node does not react, even if its attributes say so
            actions = [word for name, word in _ACTION_ATTRIBUTES if get(name) == "true"]
            if cls.endswith(_EDIT_CLASSES):
                actions.append("edit")
            if get("scrollable") == "true":
                actions.append("scroll")
        states = []
        if get("checkable") == "true":
            states.append("checked" if get("checked") == "true" else "unchecked")
        states += [name for name in ("password", "selected", "focused") if get(name) == "true"]
        text, description = _clean(get("text", "")), _clean(get("content-desc", ""))
        label = f"{text} {description}" if text and description and text != description else text or description
        return _Node(cls, actions, states, {label: None} if label else {}, box, depth)

    def _box(self, bounds: str) -> Box | None:
        """Converts bounds in pixels to 0-999, clipped to the screen; None if the node is off-screen or too small."""
        match = _BOUNDS.fullmatch(bounds)
        if match is None:
            return None
        w, h = self._width, self._height
        x1, y1, x2, y2 = map(int, match.groups())
        x1, y1, x2, y2 = max(x1, 0), max(y1, 0), min(x2, w), min(y2, h)
        if x2 - x1 <= MIN_SIDE * w or y2 - y1 <= MIN_SIDE * h:
            return None
        return (
            round(x1 * COORD_MAX / w),
            round(y1 * COORD_MAX / h),
            round(x2 * COORD_MAX / w),
            round(y2 * COORD_MAX / h),
        )


def _clean(text: str) -> str:
    return escape_markup(" ".join(text.split())) if text else ""


def shorten(text: str, most: int = MAX_TEXT) -> str:
    """Truncates `text` to `most` characters and an ellipsis if it is longer."""
    return text if len(text) <= most else text[:most] + "..."
