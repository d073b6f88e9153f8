"""A page's DOM snapshot as the XML of Android's `uiautomator dump`, which policies read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

from mobilerl.envs.browser.snapshot import Node, Snapshot

CLASSES = {"A": "TextView", "BUTTON": "Button", "IMG": "ImageView", "SELECT": "Spinner", "TEXTAREA": "EditText"}
"""Android's classes by tag; those of inputs and roles are in `INPUTS` and `ROLES`."""
INPUTS = {"checkbox": "CheckBox", "radio": "RadioButton", "range": "SeekBar", "image": "ImageButton"}
BUTTONS = ("button", "submit", "reset", "file", "color")
"""Types of inputs that are buttons, with their value as the text."""
ROLES = {"button": "Button", "checkbox": "CheckBox", "radio": "RadioButton", "switch": "Switch", "textbox": "EditText"}
NAMES = ("aria-label", "alt", "title", "placeholder")
"""Attributes that name an element without text, in order of preference."""
_JOINT = re.compile(r"(?<=[A-Za-z])[-_]+(?=[A-Za-z])")


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
        state = _state(node)
        drawn = _drawn_switch(node) if kind in ("Button", "View") and not state else None
        kind = "Switch" if drawn is not None else kind
        if (state or kind in ("CheckBox", "RadioButton", "Switch")) and node.tag != "LABEL":
            checked = drawn or node.index in self._snapshot.checked or state == "true"
            more |= {"checkable": True, "checked": checked}
        more["selected"] = get("aria-selected") == "true"
        more["focused"] = kind == "EditText" and self._focused(node)
        if not more.get("text"):
            more["description"] = self._name(node, bool(more["clickable"]) and kind != "Switch")
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
        or _state(node)
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


def _state(node: Node) -> str:
    """Whether the author says that an element is on: "true", "false", "mixed" or ""."""
    return node.attributes.get("aria-checked", "") or node.attributes.get("aria-pressed", "")


def _drawn_switch(node: Node) -> bool | None:
    """Whether an element that looks like a switch, a knob alone on a track of up to three times its width, is on, with
    the knob at the right; None for other elements."""
    knob = node.children[0] if len(node.children) == 1 else None
    if knob is None or knob.children or knob.text or not (node.round and knob.round):
        return None
    (left, top, right, bottom), (x1, y1, x2, y2) = node.box, knob.box
    tall, size = bottom - top, y2 - y1
    if not (1.3 * tall <= right - left <= 2.5 * tall and abs(x2 - x1 - size) <= 1 and tall / 2 <= size <= 1.2 * tall):
        return None
    return x1 - left > right - x2


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
