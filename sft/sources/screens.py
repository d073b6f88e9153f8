"""Converts the data sets' descriptions of screens to the XML of a uiautomator dump, which `parse_screen` reads."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

from mobilerl.sft.sources.protos import parse

MAX_DEPTH = 200
UNREADABLE = "UI tree cannot be read"
"""Note on steps whose screen description cannot be converted."""
APPLICATION = 1
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_FLAGS = ("checkable checked clickable enabled focusable focused scrollable long-clickable password selected").split()


def forest_xml(data: bytes) -> tuple[str, str]:
    """XML and package of the active window of a serialized AndroidAccessibilityForest. Raises ValueError.

    As in a uiautomator dump, only the active window (the application windows if none is active) is included, without
    the children of invisible nodes.
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
    placed = {nodes[0].unique_id}  # a node stays where it is first encountered, which prevents cycles
    waiting = [(nodes[0], hierarchy, 0)]
    while waiting:
        node, parent, depth = waiting.pop()
        if depth > MAX_DEPTH:
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
    flags = {flag: str(getattr(node, f"is_{flag.replace('-', '_')}")).lower() for flag in _FLAGS}
    bounds = {"bounds": f"[{box.left},{box.top}][{box.right},{box.bottom}]"}
    return {name: _NOT_XML.sub("", text) for name, text in texts.items()} | flags | bounds


def annotations_xml(boxes: Sequence[float], texts: Sequence[str], kinds: Sequence[str], width: int, height: int) -> str:
    """Annotations of Android in the Wild as a flat hierarchy. `boxes` holds y, x, height and width (0 to 1) of each.

    Raises ValueError if the lengths do not match.
    """
    if len(boxes) != 4 * len(texts) or len(kinds) != len(texts):
        raise ValueError("annotations of different lengths")
    hierarchy = ET.Element("hierarchy", rotation="0")
    for i, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        y, x, h, w = boxes[4 * i : 4 * i + 4]
        if not all(-1 <= v <= 2 for v in (y, x, h, w)):  # false for NaN as well
            continue
        left, top, right, bottom = round(x * width), round(y * height), round((x + w) * width), round((y + h) * height)
        ET.SubElement(
            hierarchy,
            "node",
            {
                "text": _NOT_XML.sub("", text),
                "class": _NOT_XML.sub("", kind),
                "clickable": "true",
                "enabled": "true",
                "bounds": f"[{left},{top}][{right},{bottom}]",
            },
        )
    return ET.tostring(hierarchy, encoding="unicode")
