"""`uiautomator dump` of a laid-out screen: one line of XML, attributes in the order Android 13 writes them."""

from __future__ import annotations

import re
from functools import lru_cache

from mobilerl.envs.phone.ui import Bounds, Node, Tree

_HEAD = "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation=\"{}\">"
_SPECIAL = re.compile(r"[&<>\"'\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_BOOL = ("false", "true")


def dump(tree: Tree, package: str, scale: float, width: int, height: int, rotation: int = 0) -> str:
    """The focused window of `tree` in pixels. Nodes outside the viewport are left out, others clipped to it."""
    out = [_HEAD.format(rotation)]
    _node(tree.window, 0, f'" package="{_escape(package)}" content-desc="', scale, (0, 0, width, height), out)
    out.append("</hierarchy>")
    return "".join(out)


def _scale(bounds: Bounds, scale: float) -> Bounds:
    left, top, right, bottom = bounds
    return round(left * scale), round(top * scale), round(right * scale), round(bottom * scale)


def _node(node: Node, index: int, package: str, scale: float, clip: Bounds, out: list[str]) -> None:
    x1, y1, x2, y2 = bounds = node.bounds if scale == 1 else _scale(node.bounds, scale)
    left, top, right, bottom = clip
    if x1 < left or y1 < top or x2 > right or y2 > bottom:  # few nodes do, and this loop is the busiest of a step
        x1, y1, x2, y2 = bounds = (max(x1, left), max(y1, top), min(x2, right), min(y2, bottom))
    if x1 >= x2 or y1 >= y2:
        return
    clickable = _BOOL[node.on_tap is not None or node.field_key != ""]
    text = "•" * len(node.text) if node.password else node.text
    # An empty field shows its hint, and uiautomator reports the shown text.
    shown = text or node.hint
    hint = f'" hint="{_escape(node.hint)}' if node.hint else ""
    out.append(
        f'<node index="{index}" text="{_escape(shown)}" resource-id="{_escape(node.rid)}" class="{node.cls}{package}'
        f'{_escape(node.desc)}" checkable="{_BOOL[node.checkable]}" checked="{_BOOL[node.checked]}" '
        f'clickable="{clickable}" enabled="{_BOOL[node.enabled]}" focusable="{clickable}" '
        f'focused="{_BOOL[node.focused]}" scrollable="{_BOOL[node.scrollable]}" '
        f'long-clickable="{_BOOL[node.on_long is not None]}" password="{_BOOL[node.password]}" '
        f'selected="{_BOOL[node.selected]}" bounds="[{x1},{y1}][{x2},{y2}]{hint}"'
    )
    if not node.children:
        out.append(" />")
        return
    out.append(">")
    for i, child in enumerate(node.children):
        _node(child, i, package, scale, bounds, out)
    out.append("</node>")


@lru_cache(maxsize=1024)
def _escape(text: str) -> str:
    return _SPECIAL.sub(_entity, text)


def _entity(match: re.Match[str]) -> str:
    char = match[0]
    if char in "&<>\"'\n\t\r":
        names = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}
        return names.get(char) or f"&#{ord(char)};"
    return "."  # what XML 1.0 cannot hold; Android writes a full stop too
