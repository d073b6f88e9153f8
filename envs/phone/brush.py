"""What the functions that draw a node share: the canvas with its colors, and small helpers."""

from __future__ import annotations

from dataclasses import dataclass

from mobilerl.envs.phone.canvas import Canvas
from mobilerl.envs.phone.theme import RGB, WHITE, Theme, accent
from mobilerl.envs.phone.ui import Node

OPPOSITE = {"left": "right", "right": "left"}
POINTING = frozenset("back left right send message note list sort playlist_add volume".split())
"""Icons that Android turns over where one reads from the right; those of players keep their direction."""


@dataclass(frozen=True, slots=True)
class Brush:
    """The context in which a node is drawn."""

    canvas: Canvas
    theme: Theme
    color: str
    """The app's color."""
    on_wallpaper: bool = False
    rtl: bool = False
    """Whether texts begin on the right, and what points to the left or the right is turned over."""

    @property
    def accent(self) -> RGB:
        return accent(self.color, self.theme.dark)

    @property
    def on_accent(self) -> RGB:
        return (32, 33, 36) if self.theme.dark else WHITE

    def write(
        self,
        text: str,
        span: tuple[float, float],
        y: float,
        size: float,
        ink: RGB,
        align: str = "left",
        bold: bool = False,
        room: float = 0,
    ) -> float:
        """A line between the left and the right of `span`. `align` is that of screens which are not mirrored. Returns
        its width."""
        left, right = span
        if self.rtl:
            align = OPPOSITE.get(align, align)
        x = {"center": (left + right) / 2, "right": right}.get(align, left)
        return self.canvas.text(text, x, y, size, ink, align, bold, room)

    def icon(self, name: str, x: float, y: float, size: float, ink: RGB) -> None:
        self.canvas.icon(name, x, y, size, ink, turned_over=self.rtl and name in POINTING)


def middle(node: Node) -> tuple[float, float]:
    left, top, right, bottom = node.bounds
    return (left + right) / 2, (top + bottom) / 2


def ink_of(brush: Brush, node: Node, default: RGB) -> RGB:
    ink = accent(node.color, brush.theme.dark) if node.color else default
    return ink if node.enabled else brush.theme.outline
