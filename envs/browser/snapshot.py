"""The visible nodes of a page, from its DOM snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

STYLES = ("visibility", "opacity", "overflow-x", "overflow-y", "display", "border-top-left-radius")
"""Computed styles that a snapshot must contain, in this order."""
ARGUMENTS = {"computedStyles": list(STYLES), "includeDOMRects": True}
"""Arguments of the method DOMSnapshot.captureSnapshot."""
CONTROLS = ("BUTTON", "INPUT", "TEXTAREA", "SELECT")
WHOLE = ("#document", "HTML", "BODY")
"""Nodes that fill the page. A handler there listens to what happens elsewhere, so they are not clickable."""

Box = tuple[float, float, float, float]


@dataclass(slots=True)
class Node:
    """A visible node. `box` is x1, y1, x2, y2 in CSS pixels of the screen, cut off at what surrounds it."""

    index: int
    tag: str
    attributes: Mapping[str, str]
    box: Box
    clickable: bool
    text: str = ""
    inline: bool = False
    round: bool = False
    """Whether its ends are half circles."""
    children: list[Node] = field(default_factory=list)


class Snapshot:
    """What DOMSnapshot.captureSnapshot returns. `hidden` are ids of elements that are not part of the screen."""

    def __init__(self, captured: Mapping[str, Any], hidden: Collection[str] = ()) -> None:
        self._strings: Sequence[str] = captured["strings"]
        self._document = captured["documents"][0]
        self._nodes, self._layout = self._document["nodes"], self._document["layout"]
        self._hidden = hidden

    def _string(self, index: int) -> str:
        return self._strings[index] if index >= 0 else ""

    def _rare(self, name: str) -> dict[int, str]:
        found = self._nodes[name]
        return {index: self._string(value) for index, value in zip(found["index"], found["value"], strict=True)}

    @cached_property
    def values(self) -> dict[int, str]:
        """Texts of fields by node."""
        return self._rare("inputValue") | self._rare("textValue")

    @cached_property
    def checked(self) -> frozenset[int]:
        return frozenset(self._nodes["inputChecked"]["index"])

    @cached_property
    def chosen(self) -> dict[int, str]:
        """Texts of the chosen options by the node of their list."""
        selected, parents = set(self._nodes["optionSelected"]["index"]), self._nodes["parentIndex"]
        texts: dict[int, str] = {}
        for index, parent in enumerate(parents):
            if parent in selected and self._nodes["nodeType"][index] == 3:
                owner = parents[parent]
                owner = parents[owner] if self._tag(owner) == "OPTGROUP" else owner
                said = self._string(self._nodes["nodeValue"][index]).strip()
                texts[owner] = f"{texts[owner]}, {said}" if owner in texts else said
        return texts

    def _tag(self, index: int) -> str:
        return self._string(self._nodes["nodeName"][index])

    def _attributes(self, index: int) -> dict[str, str]:
        words = [self._string(word) for word in self._nodes["attributes"][index]]
        return dict(zip(words[::2], words[1::2], strict=True))

    def root(self, left: float, top: float, width: float, height: float) -> Node:
        """The nodes in this part of the page, which is on the screen, in CSS pixels."""
        below: dict[int, list[int]] = defaultdict(list)
        places: dict[int, int] = {}
        for place, index in enumerate(self._layout["nodeIndex"]):
            places[index] = place
        for index in places:
            below[self._nodes["parentIndex"][index]].append(index)
        clicked = frozenset(self._nodes["isClickable"]["index"])

        def build(index: int, clip: Box) -> Iterator[Node]:
            place, tag = places[index], self._tag(index)
            x, y, w, h = self._layout["bounds"][place]
            box = _cut((x - left, y - top, x - left + w, y - top + h), clip)
            styles = [self._string(style) for style in self._layout["styles"][place]] or [""] * len(STYLES)
            visibility, opacity, over_x, over_y, display, radius = styles
            attributes = self._attributes(index)
            if attributes.get("id") in self._hidden and attributes.get("id"):
                return
            if tag not in WHOLE and not {over_x, over_y} <= {"visible", ""}:
                clip = _cut(box, clip)
            clickable = (index in clicked or tag in CONTROLS) and tag not in WHOLE
            node = Node(index, tag, attributes, box, clickable, inline=display == "inline", round=_round(radius, w, h))
            if tag == "#text":
                node.text = self._string(self._layout["text"][place])
            if tag != "SELECT":
                node.children = [made for child in below[index] for made in build(child, clip)]
            shown = visibility in ("visible", "") and opacity != "0" and _visible(box)
            if shown:
                yield node
            elif opacity != "0":  # children of a hidden node may be visible, and those of an empty one stick out
                yield from node.children

        screen = (0.0, 0.0, width, height)
        first = self._layout["nodeIndex"][0] if self._layout["nodeIndex"] else None
        made = [] if first is None else list(build(first, screen))
        return Node(-1, "#screen", {}, screen, False, children=made)

    def scrolls(self) -> frozenset[int]:
        """Nodes whose content is longer than they are and can be scrolled."""
        found = []
        rects = zip(self._layout["nodeIndex"], self._layout["scrollRects"], self._layout["clientRects"], strict=True)
        for place, (index, scroll, client) in enumerate(rects):
            styles = [self._string(style) for style in self._layout["styles"][place]]
            if len(scroll) < 4 or len(client) < 4 or not styles:
                continue
            sideways = scroll[2] > client[2] + 1 and styles[2] in ("auto", "scroll")
            if sideways or scroll[3] > client[3] + 1 and styles[3] in ("auto", "scroll"):
                found.append(index)
        return frozenset(found)


def _round(radius: str, width: float, height: float) -> bool:
    """Whether a radius in CSS, in pixels or in percent, is at least half of the height."""
    first = radius.partition(" ")[0]
    if first.endswith("%"):
        return float(first[:-1]) >= 50
    return first.endswith("px") and float(first[:-2]) >= min(width, height) / 2 > 0


def _cut(box: Box, clip: Box) -> Box:
    return max(box[0], clip[0]), max(box[1], clip[1]), min(box[2], clip[2]), min(box[3], clip[3])


def _visible(box: Box) -> bool:
    return box[2] - box[0] >= 1 and box[3] - box[1] >= 1
