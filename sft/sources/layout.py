"""Descriptions of a screen in the data sets -> the XML of a uiautomator dump, which `parse_screen` reads."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

from sft.sources.protos import parse

DEEPEST = 200
UNREADABLE = "UI tree cannot be read"
"""A note to the steps whose description gives no XML."""
APPLICATION = 1
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_FLAGS = {
    "checkable": "is_checkable", "checked": "is_checked", "clickable": "is_clickable", "enabled": "is_enabled",
    "focusable": "is_focusable", "focused": "is_focused", "scrollable": "is_scrollable",
    "long-clickable": "is_long_clickable", "password": "is_password", "selected": "is_selected",
}  # fmt: skip


def forest_xml(data: bytes) -> tuple[str, str]:
    """XML and package of the active window of a serialized AndroidAccessibilityForest. Raises ValueError.

    As in a uiautomator dump: the active window only (the application windows where none is active), and nothing below
    a node that is not visible.
    """
    windows = list(parse("Forest", data).windows)
    shown = (
        [w for w in windows if w.is_active and w.tree.nodes]
        or [w for w in windows if w.window_type == APPLICATION and w.tree.nodes]
        or [w for w in windows if w.tree.nodes]
    )
    if not shown:
        raise ValueError("a forest without nodes")
    hierarchy = ET.Element("hierarchy", rotation="0")
    for window in sorted(shown, key=lambda w: w.layer):
        _add_tree(hierarchy, window.tree.nodes)
    return ET.tostring(hierarchy, encoding="unicode"), max(shown, key=lambda w: w.layer).tree.nodes[0].package_name


def _add_tree(hierarchy: ET.Element, nodes: Sequence[Any]) -> None:
    by_id = {node.unique_id: node for node in nodes}
    placed = {nodes[0].unique_id}  # a node that is named twice stays where it is first met: no cycles
    waiting = [(nodes[0], hierarchy, 0)]
    while waiting:
        node, parent, depth = waiting.pop()
        if depth > DEEPEST:
            raise ValueError("a tree deeper than any screen")
        element = ET.SubElement(parent, "node", _attributes(node))
        children = []
        for number in node.child_ids:
            if number in by_id and number not in placed and by_id[number].is_visible_to_user:
                placed.add(number)
                children.append((by_id[number], element, depth + 1))
        waiting += reversed(children)


def _attributes(node: Any) -> dict[str, str]:
    box = node.bounds_in_screen
    texts = {
        "text": node.text or (node.hint_text if node.is_editable else ""),
        "resource-id": node.view_id_resource_name,
        "class": node.class_name,
        "package": node.package_name,
        "content-desc": node.content_description,
    }
    flags = {name: str(getattr(node, flag)).lower() for name, flag in _FLAGS.items()}
    bounds = {"bounds": f"[{box.left},{box.top}][{box.right},{box.bottom}]"}
    return {name: _NOT_XML.sub("", text) for name, text in texts.items()} | flags | bounds


def annotations_xml(boxes: Sequence[float], texts: Sequence[str], kinds: Sequence[str], width: int, height: int) -> str:
    """Android-in-the-Wild's annotations as a flat hierarchy: `boxes` is (y, x, height, width) of each, 0 to 1.

    Raises ValueError when the three do not go together.
    """
    if len(boxes) != 4 * len(texts) or len(kinds) != len(texts):
        raise ValueError("annotations of different lengths")
    hierarchy = ET.Element("hierarchy", rotation="0")
    for i, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        y, x, h, w = boxes[4 * i : 4 * i + 4]
        if not all(-1 <= v <= 2 for v in (y, x, h, w)):  # also what is not a number
            continue
        left, top, right, bottom = round(x * width), round(y * height), round((x + w) * width), round((y + h) * height)
        ET.SubElement(hierarchy, "node", {
            "text": _NOT_XML.sub("", text), "class": _NOT_XML.sub("", kind), "clickable": "true", "enabled": "true",
            "bounds": f"[{left},{top}][{right},{bottom}]",
        })  # fmt: skip
    return ET.tostring(hierarchy, encoding="unicode")
