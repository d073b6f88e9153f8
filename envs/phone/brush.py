"""What the functions that draw a node share: the canvas with its colours, and small helpers."""

from __future__ import annotations

from dataclasses import dataclass

from envs.phone.canvas import Canvas
from envs.phone.theme import RGB, WHITE, Theme, accent
from envs.phone.ui import Node


@dataclass(frozen=True, slots=True)
class Brush:
    """The context in which a node is drawn."""

    canvas: Canvas
    theme: Theme
    color: str
    """The app's colour."""
    on_wallpaper: bool = False

    @property
    def accent(self) -> RGB:
        return accent(self.color, self.theme.dark)

    @property
    def on_accent(self) -> RGB:
        return (32, 33, 36) if self.theme.dark else WHITE


def middle(node: Node) -> tuple[float, float]:
    left, top, right, bottom = node.bounds
    return (left + right) / 2, (top + bottom) / 2


def ink_of(brush: Brush, node: Node, default: RGB) -> RGB:
    ink = accent(node.color, brush.theme.dark) if node.color else default
    return ink if node.enabled else brush.theme.outline
