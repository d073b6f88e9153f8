"""What lies under the finger: the element of a UI dump that a tap, a long press or a swipe meets."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envs.base import COORD_MAX

_BOUNDS = re.compile(r"\[(-?[0-9]{1,6}),(-?[0-9]{1,6})\]\[(-?[0-9]{1,6}),(-?[0-9]{1,6})\]")
_OPERABLE = ("clickable", "long-clickable", "checkable", "scrollable")
LONGEST = 300
"""Characters of a text that are shown."""

Box = tuple[int, int, int, int]


@dataclass(slots=True)
class _Node:
    attributes: Mapping[str, str]
    box: Box | None
    end: int = 0
    """Place behind its last descendant."""

    @property
    def area(self) -> int:
        assert self.box is not None
        x1, y1, x2, y2 = self.box
        return (x2 - x1) * (y2 - y1)

    @property
    def operable(self) -> bool:
        get = self.attributes.get
        return get("enabled") != "false" and any(get(name) == "true" for name in _OPERABLE)

    def contains(self, x: float, y: float) -> bool:
        return self.box is not None and self.box[0] <= x < self.box[2] and self.box[1] <= y < self.box[3]


class _Reader:
    """An ElementTree parser target: the nodes in document order."""

    def __init__(self) -> None:
        self.nodes: list[_Node] = []
        self._open: list[_Node] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        match = _BOUNDS.fullmatch(attributes.get("bounds", ""))
        node = _Node(attributes, tuple(map(int, match.groups())) if match else None)  # type: ignore[arg-type]
        self.nodes.append(node)
        self._open.append(node)

    def end(self, tag: str) -> None:
        self._open.pop().end = len(self.nodes)

    def close(self) -> list[_Node]:
        return self.nodes


def element_hit(xml: str, action: Mapping[str, Any], width: int, height: int) -> dict[str, Any] | None:
    """The element that `action` (a dict with its `kind`) meets on a `width` x `height` px screen.

    Where the finger goes down: the smallest element there that reacts, or the smallest at all. Of typing: the focused
    one. None for other actions, for a spot without elements and for a dump that cannot be read.
    """
    if action["kind"] not in ("tap", "long_press", "swipe", "type"):
        return None
    nodes = _read(xml)
    if action["kind"] == "type":
        there = [n for n in nodes if n.box is not None and n.attributes.get("focused") == "true"]
    else:
        x, y = action["x"] * width / COORD_MAX, action["y"] * height / COORD_MAX
        there = [n for n in nodes if n.contains(min(x, width - 1), min(y, height - 1))]
    there = [n for n in there if n.operable] or there
    if not there:
        return None
    node = min(reversed(there), key=lambda n: n.area)  # of equals the last one: it is drawn on top
    return _describe(node, nodes)


def _read(xml: str) -> list[_Node]:
    if "<!DOCTYPE" in xml:  # dumps have none, and entities could be made to expand without end
        return []
    parser = ET.XMLParser(target=_Reader())
    try:
        parser.feed(xml)
        return parser.close()
    except (ET.ParseError, ValueError):  # ValueError: lone surrogates
        return []


def _describe(node: _Node, nodes: list[_Node]) -> dict[str, Any]:
    get = node.attributes.get
    inside = nodes[nodes.index(node) : node.end]
    texts = [n.attributes.get("text") or n.attributes.get("content-desc") or "" for n in inside]
    return {
        "class": get("class", "").rpartition(".")[2],
        "text": " | ".join(dict.fromkeys(t for t in texts if t))[:LONGEST],
        "id": get("resource-id", "")[:LONGEST],
        "description": get("content-desc", "")[:LONGEST],
        "box": node.box,
        "states": [name for name in (*_OPERABLE, "checked", "selected", "focused") if get(name) == "true"],
        "enabled": get("enabled") != "false",
    }
