"""How tiles are drawn: icons with a caption, covers, products and maps."""

from __future__ import annotations

from mobilerl.envs.phone.brush import Brush, middle
from mobilerl.envs.phone.theme import RGB, WHITE, brightness, mix, rgb
from mobilerl.envs.phone.ui import Bounds, Node


def draw_tile(brush: Brush, node: Node) -> None:
    x, _ = middle(node)
    left, top, right, bottom = node.bounds
    canvas, fill = brush.canvas, rgb(node.color)
    if not node.text:
        _image(brush, node)
        return
    side = min(52, bottom - top - 30)
    y = top + 8 + side / 2
    canvas.round_rect(x - side / 2, y - side / 2, x + side / 2, y + side / 2, side * 0.3, fill)
    canvas.icon(node.icon, x, y, side * 0.56, WHITE if brightness(fill) < 0.8 else (60, 64, 67))
    ink = WHITE if brush.on_wallpaper else brush.theme.text
    canvas.text(node.text, x, y + side / 2 + 13, node.size, ink, "center", room=right - left)


def _image(brush: Brush, node: Node) -> None:
    """A tile without a caption: album cover, product or map."""
    left, top, right, bottom = node.bounds
    canvas, fill = brush.canvas, rgb(node.color)
    left, top, right, bottom = left + 16, top + 8, right - 16, bottom - 8
    if node.icon == "map":
        _map(brush, fill, (left, top, right, bottom))
        return
    dark = brush.theme.dark
    canvas.round_rect(left, top, right, bottom, 16, mix(fill, brush.theme.surface, 0.6 if dark else 0.75))
    ink = mix(fill, WHITE, 0.25) if dark else fill
    canvas.icon(node.icon, (left + right) / 2, (top + bottom) / 2, 0.6 * (bottom - top), ink)


def _map(brush: Brush, land: RGB, bounds: Bounds) -> None:
    """Streets, a park, a river and a pin."""
    canvas, dark = brush.canvas, brush.theme.dark
    left, top, right, bottom = bounds
    width, height = right - left, bottom - top
    ground = (36, 47, 62) if dark else mix(land, (245, 245, 245), 0.8)
    street = (56, 65, 78) if dark else WHITE
    canvas.round_rect(left, top, right, bottom, 16, ground)
    park = (left + 0.25 * width, top + 0.28 * height, left + 0.55 * width, top + 0.55 * height)
    canvas.rect(*park, (38, 60, 63) if dark else land)
    canvas.rect(left + 0.66 * width, top, left + 0.78 * width, bottom, (23, 38, 60) if dark else (170, 211, 223))
    for share, thick in ((0.2, 4), (0.58, 8), (0.84, 4)):
        canvas.rect(left, top + share * height, right, top + share * height + thick, street)
    for share, thick in ((0.1, 4), (0.22, 6), (0.44, 3), (0.58, 4), (0.86, 6)):
        canvas.rect(left + share * width, top, left + share * width + thick, bottom, street)
    canvas.icon("place", left + 0.5 * width, top + 0.42 * height, 30, (234, 67, 53))
