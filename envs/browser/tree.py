"""A page's DOM snapshot as the XML of Android's `uiautomator dump`, which policies read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from xml.sax.saxutils import quoteattr

STYLES = ("visibility", "opacity", "overflow-x", "overflow-y", "display")
"""Computed styles that a snapshot must contain, in this order."""
ARGUMENTS = {"computedStyles": list(STYLES), "includeDOMRects": True}
"""Arguments of the method DOMSnapshot.captureSnapshot."""
CLASSES = {"A": "TextView", "BUTTON": "Button", "IMG": "ImageView", "SELECT": "Spinner", "TEXTAREA": "EditText"}
"""Android's classes by tag; those of inputs and roles are in `INPUTS` and `ROLES`."""
INPUTS = {"checkbox": "CheckBox", "radio": "RadioButton", "range": "SeekBar", "image": "ImageButton"}
BUTTONS = ("button", "submit", "reset", "file", "color")
"""Types of inputs that are buttons, with their value as the text."""
ROLES = {"button": "Button", "checkbox": "CheckBox", "radio": "RadioButton", "switch": "Switch", "textbox": "EditText"}
NAMES = ("aria-label", "alt", "title", "placeholder")
"""Attributes that name an element without text, in order of preference."""
CONTROLS = ("BUTTON", "INPUT", "TEXTAREA", "SELECT")
WHOLE = ("#document", "HTML", "BODY")
"""Nodes that fill the page. A handler there listens to what happens elsewhere, so they are not clickable."""
_JOINT = re.compile(r"(?<=[A-Za-z])[-_]+(?=[A-Za-z])")

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
            visibility, opacity, over_x, over_y, display = styles
            attributes = self._attributes(index)
            if attributes.get("id") in self._hidden and attributes.get("id"):
                return
            if tag not in WHOLE and not {over_x, over_y} <= {"visible", ""}:
                clip = _cut(box, clip)
            clickable = (index in clicked or tag in CONTROLS) and tag not in WHOLE
            node = Node(index, tag, attributes, box, clickable, inline=display == "inline")
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


def _cut(box: Box, clip: Box) -> Box:
    return max(box[0], clip[0]), max(box[1], clip[1]), min(box[2], clip[2]), min(box[3], clip[3])


def _visible(box: Box) -> bool:
    return box[2] - box[0] >= 1 and box[3] - box[1] >= 1


class Writer:
    """Writes the XML. `scale` converts CSS pixels to those of the screenshot; `focus` is the box of the field with the
    focus, in CSS pixels."""

    def __init__(self, snapshot: Snapshot, scale: float, focus: Sequence[float]) -> None:
        self._snapshot, self._scale = snapshot, scale
        self._focus = [round(edge) for edge in focus]
        self._scrolling = snapshot.scrolls()
        self._parts: list[str] = []

    def write(self, root: Node) -> str:
        for node in root.children:
            self._node(node, labelled=False)
        return f'<?xml version="1.0"?><hierarchy rotation="0">{"".join(self._parts)}</hierarchy>'

    def _node(self, node: Node, labelled: bool) -> None:
        """`labelled`: inside a LABEL, which passes taps on to its check box."""
        if node.tag == "#text":
            if said := node.text.strip():
                self._write("TextView", node, text=said)
            return
        if text := _flowing(node):
            kind = CLASSES.get(node.tag, "TextView")
            self._write(kind, node, text=text, clickable=node.clickable, enabled=_enabled(node))
            return
        kind, more = self._describe(node, labelled)
        opened = self._write(kind, node, leaf=False, **more)
        for child in node.children:
            self._node(child, labelled or node.tag == "LABEL")
        if opened:
            self._parts.append("</node>")

    def _describe(self, node: Node, labelled: bool) -> tuple[str, dict[str, Any]]:
        """Class and attributes of an element other than a text."""
        get, role = node.attributes.get, node.attributes.get("role", "")
        kind = ROLES.get(role) or CLASSES.get(node.tag) or _box_of(node) or "View"
        clickable = node.clickable and (_own_text(node) or not any(map(_operable, node.children)))
        more: dict[str, Any] = {"clickable": clickable, "scrollable": node.index in self._scrolling}
        more["enabled"] = _enabled(node)
        own = self._snapshot.values.get(node.index, "")
        if node.tag == "INPUT":
            type = get("type", "text").lower()
            kind = "Button" if type in BUTTONS else INPUTS.get(type, "EditText")
            more |= {"text": "" if kind in ("CheckBox", "RadioButton") else own, "password": type == "password"}
            more["clickable"] = not (labelled and kind in ("CheckBox", "RadioButton"))
        elif node.tag == "TEXTAREA":
            more["text"], more["clickable"] = own, True
        elif node.tag == "SELECT":
            more["text"], more["clickable"] = self._snapshot.chosen.get(node.index, ""), True
        if kind in ("CheckBox", "RadioButton", "Switch") and node.tag != "LABEL":
            checked = node.index in self._snapshot.checked or get("aria-checked") == "true"
            more |= {"checkable": True, "checked": checked}
        more["selected"] = get("aria-selected") == "true"
        more["focused"] = kind == "EditText" and self._focused(node)
        if not more.get("text"):
            more["description"] = self._name(node, bool(more["clickable"]))
        return kind, more

    def _focused(self, node: Node) -> bool:
        return [round(edge) for edge in node.box] == self._focus

    def _name(self, node: Node, needed: bool) -> str:
        """What the author calls an element; if one is `needed` and it has no text, the words of its id or class."""
        for name in NAMES:
            if said := node.attributes.get(name, "").strip():
                return said
        if not needed or node.tag in ("INPUT", "TEXTAREA", "SELECT") or _own_text(node):
            return ""
        said = node.attributes.get("id") or node.attributes.get("class") or node.tag.lower()
        return _JOINT.sub(" ", said).strip()

    def _write(self, kind: str, node: Node, leaf: bool = True, **more: Any) -> bool:
        """Writes a node's tag. Returns False for a node that is left out, as nothing can be said about it."""
        text, description = more.pop("text", ""), more.pop("description", "")
        states = {name: value for name, value in more.items() if value and name != "enabled"}
        if not (text or description or states) and not leaf:
            return False
        scale, box = self._scale, node.box
        bounds = "[{},{}][{},{}]".format(*(round(edge * scale) for edge in box))
        parts = [f'<node class="android.widget.{kind}" bounds="{bounds}"']
        parts.append(f' enabled="{str(more.get("enabled", True)).lower()}"')
        parts += [f" text={_quoted(text)}"] * bool(text) + [f" content-desc={_quoted(description)}"] * bool(description)
        parts += [f' {name}="true"' for name in states]
        self._parts.append("".join(parts) + ("/>" if leaf else ">"))
        return True


def _flowing(node: Node) -> str:
    """The text of an element that has nothing but text in it, such as a paragraph with words in bold; else ""."""
    if (
        node.tag in ("INPUT", "TEXTAREA", "SELECT", "LABEL")
        or node.attributes.get("role") in ROLES
        or not node.children
    ):
        return ""
    pieces: list[str] = []

    def gather(inner: Node) -> bool:
        for child in inner.children:
            if child.tag == "#text":
                pieces.append(child.text)
            elif child.clickable or not child.inline or not gather(child):
                return False
        return True

    return " ".join("".join(pieces).split()) if gather(node) else ""


def _enabled(node: Node) -> bool:
    return "disabled" not in node.attributes and node.attributes.get("aria-disabled") != "true"


def _box_of(node: Node) -> str:
    """Class of the check box that a label belongs to, or ""."""
    found = (INPUTS.get(child.attributes.get("type", "")) for child in node.children if child.tag == "INPUT")
    return next(filter(None, found), "") if node.tag == "LABEL" else ""


def _own_text(node: Node) -> bool:
    """Whether there is text in an element beside that of others in it which can be tapped."""
    return any(child.text.strip() or not child.clickable and _own_text(child) for child in node.children)


def _operable(node: Node) -> bool:
    return node.clickable or any(map(_operable, node.children))


def _quoted(text: str) -> str:
    return quoteattr("".join(c for c in text if c >= " " or c in "\n\t"))


def to_xml(
    captured: Mapping[str, Any],
    shown: tuple[float, float, float, float],
    scale: float,
    focus: Sequence[float] = (),
    hidden: Collection[str] = (),
) -> str:
    """The XML of the part of a page that is `shown`: left, top, width and height in CSS pixels."""
    snapshot = Snapshot(captured, hidden)
    return Writer(snapshot, scale, focus).write(snapshot.root(*shown))
