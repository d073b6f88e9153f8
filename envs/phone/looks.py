"""How each kind of node is drawn: one function per `Node.look`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mobilerl.envs.phone.brush import Brush, ink_of, middle
from mobilerl.envs.phone.fields import draw_composer, draw_field
from mobilerl.envs.phone.fonts import wrap_text
from mobilerl.envs.phone.theme import RGB, WHITE, bar_color, brightness, mix, rgb
from mobilerl.envs.phone.tiles import draw_tile
from mobilerl.envs.phone.ui import LINE_PITCH, Node

AVATARS = ("#5C6BC0", "#26A69A", "#EF6C00", "#AB47BC", "#42A5F5", "#66BB6A", "#EC407A", "#8D6E63")
SYMBOLS = dict(zip("+-−×÷=%⌫", "plus minus minus times divide equals percent erase".split(), strict=True))
"""Button texts that look better drawn than written."""


Look = Callable[[Brush, Node], None]


def draw(brush: Brush, node: Node) -> None:
    """Draws a node and what is in it, parents first."""
    look = LOOKS.get(node.look)
    if look is not None:
        look(brush, node)
    elif node.text:
        _text(brush, node)
    if node.look == "viewport":
        with brush.canvas.viewport(node.bounds):
            _draw_children(brush, node)
    else:
        _draw_children(brush, node)


def _draw_children(brush: Brush, node: Node) -> None:
    _, top, _, bottom = node.bounds
    for child in node.children:
        if not node.scrollable or (child.bounds[1] < bottom and child.bounds[3] > top):
            draw(brush, child)


def _text(brush: Brush, node: Node) -> None:
    left, top, right, bottom = node.bounds
    width = right - left - 2 * node.pad[0]
    ink = ink_of(brush, node, brush.theme.text)
    pitch = node.size * LINE_PITCH
    lines = [node.text] if bottom - top < 2 * pitch else wrap_text(node.text, width, node.size, node.bold)
    y = (top + bottom) / 2 - pitch * (len(lines) - 1) / 2
    span = (left + node.pad[0], right - node.pad[0])
    for line in lines:
        brush.write(line, span, y, node.size, ink, node.align, node.bold, room=max(width, 8))
        y += pitch


def _bubble(brush: Brush, node: Node) -> None:
    """A chat message: the sender's own in the app's color, the others' in gray."""
    fill = mix(brush.theme.surface, brush.accent, 0.25) if node.color else brush.theme.divider
    left, top, right, bottom = node.bounds
    brush.canvas.round_rect(left, top + 2, right, bottom - 2, 16, fill)
    _text(brush, replace(node, color=""))


def _subtext(brush: Brush, node: Node) -> None:
    left, _, right, _ = node.bounds
    ink = ink_of(brush, node, brush.theme.subtext)
    brush.write(node.text, (left, right), middle(node)[1], node.size, ink, bold=node.bold, room=right - left)


def _section(brush: Brush, node: Node) -> None:
    left, _, right, _ = node.bounds
    y = middle(node)[1] + 3
    span = (left + 16, right - 16)
    brush.write(node.text, span, y, node.size, brush.accent, bold=True, room=right - left - 32)


def _clock(brush: Brush, node: Node) -> None:
    x, y = middle(node)
    brush.canvas.text(node.text, x, y, node.size, WHITE, "center")


def _app_bar(brush: Brush, node: Node) -> None:
    left, _, right, bottom = node.bounds
    brush.canvas.rect(left, 0, right, bottom, bar_color(brush.color, brush.theme))


def _title(brush: Brush, node: Node) -> None:
    left, _, right, _ = node.bounds
    span = (left + 8, right - 8)
    brush.write(node.text, span, middle(node)[1], node.size, brush.theme.text, room=right - left - 12)


def _icon(brush: Brush, node: Node) -> None:
    ink = ink_of(brush, node, mix(brush.theme.text, brush.theme.surface, 0.2))
    brush.icon(node.icon, *middle(node), 22, ink)


def _row_icon(brush: Brush, node: Node) -> None:
    side = min(24, 0.7 * (node.bounds[2] - node.bounds[0]))
    brush.icon(node.icon, *middle(node), side, ink_of(brush, node, brush.theme.subtext))


def _avatar(brush: Brush, node: Node) -> None:
    x, y = middle(node)
    brush.canvas.disc(x, y, 20, rgb(node.color or AVATARS[sum(map(ord, node.icon)) % len(AVATARS)]))
    brush.canvas.text(node.icon, x, y, 18, WHITE, "center")


def _row(brush: Brush, node: Node) -> None:
    if node.selected:
        brush.canvas.rect(*node.bounds, mix(brush.theme.surface, brush.accent, 0.16))


def _card(brush: Brush, node: Node) -> None:
    """A row that stands for a thing of its own, such as a note."""
    left, top, right, bottom = node.bounds
    fill = mix(brush.theme.surface, brush.accent, 0.16 if node.selected else 0.08)
    brush.canvas.round_rect(left + 8, top + 2, right - 8, bottom - 2, 12, fill)


def _quick_tile(brush: Brush, node: Node) -> None:
    """A tile of the quick settings."""
    left, top, right, bottom = node.bounds
    fill = mix(brush.theme.surface, brush.accent, 0.28) if node.checked else brush.theme.divider
    brush.canvas.round_rect(left + 8, top + 3, right - 8, bottom - 3, 25, fill)


def _label(brush: Brush, node: Node, ink: RGB) -> None:
    x, y = middle(node)
    symbol = SYMBOLS.get(node.text)
    if symbol:
        brush.canvas.icon(symbol, x, y, node.size * 1.4, ink)
    else:
        width = node.bounds[2] - node.bounds[0]
        brush.canvas.text(node.text, x, y, node.size, ink, "center", node.bold, room=width - 4)


def _button(brush: Brush, node: Node) -> None:
    left, top, right, bottom = node.bounds
    fill = rgb(node.color) if node.color else brush.accent
    ink = WHITE if brightness(fill) < 0.62 else (32, 33, 36)
    if not node.enabled:
        fill, ink = brush.theme.divider, brush.theme.outline
    brush.canvas.round_rect(left, top + 2, right, bottom - 2, 40, fill)
    _label(brush, node, ink)


def _key(brush: Brush, node: Node) -> None:
    """A key of the calculator that types something."""
    left, top, right, bottom = node.bounds
    brush.canvas.round_rect(left, top + 2, right, bottom - 2, 40, mix(brush.theme.surface, brush.accent, 0.1))
    _label(brush, node, ink_of(brush, node, brush.theme.text))


def _text_button(brush: Brush, node: Node) -> None:
    _label(brush, node, ink_of(brush, node, brush.accent))


def _fab(brush: Brush, node: Node) -> None:
    x, y = middle(node)
    fill = mix(brush.theme.surface, brush.accent, 0.45 if brush.theme.dark else 0.28)
    brush.canvas.shadow(x, y + 4, 24)
    brush.canvas.round_rect(x - 28, y - 28, x + 28, y + 28, 16, fill)
    brush.canvas.icon(node.icon, x, y, 24, mix(brush.accent, WHITE if brush.theme.dark else (0, 0, 0), 0.5))


def _switch(brush: Brush, node: Node) -> None:
    x, y = middle(node)
    canvas, theme, ahead = brush.canvas, brush.theme, -9 if brush.rtl else 9
    if node.checked:
        canvas.round_rect(x - 22, y - 13, x + 22, y + 13, 13, brush.accent)
        canvas.disc(x + ahead, y, 10, brush.on_accent)
        canvas.icon("check", x + ahead, y, 13, brush.accent)
        return
    off = mix(theme.surface, theme.text, 0.08)
    canvas.round_rect(x - 22, y - 13, x + 22, y + 13, 13, theme.subtext)
    canvas.round_rect(x - 20, y - 11, x + 20, y + 11, 11, off)
    canvas.disc(x - ahead, y, 7, theme.subtext)


def _checkbox(brush: Brush, node: Node) -> None:
    x, y = middle(node)
    if node.checked:
        brush.canvas.round_rect(x - 9, y - 9, x + 9, y + 9, 3, brush.accent)
        brush.canvas.icon("check", x, y, 16, brush.on_accent)
    else:
        brush.canvas.round_rect(x - 9, y - 9, x + 9, y + 9, 3, brush.theme.subtext)
        brush.canvas.round_rect(x - 7, y - 7, x + 7, y + 7, 1.5, brush.theme.surface)


def _radio(brush: Brush, node: Node) -> None:
    x, y = middle(node)
    brush.canvas.disc(x, y, 10, brush.accent if node.checked else brush.theme.subtext)
    brush.canvas.disc(x, y, 8, brush.theme.surface)
    if node.checked:
        brush.canvas.disc(x, y, 5, brush.accent)


def _bottom_bar(brush: Brush, node: Node) -> None:
    brush.canvas.rect(*node.bounds, bar_color(brush.color, brush.theme))


def _hint(brush: Brush, node: Node) -> None:
    left, top, right, _ = node.bounds
    x, y = middle(node)
    brush.canvas.rect(left, 0, right, top, bar_color(brush.color, brush.theme))
    brush.icon(node.icon, x, y - 48, 56, brush.theme.outline)
    brush.canvas.text(node.text, x, y, node.size, brush.theme.subtext, "center", room=right - left)


def _tab(brush: Brush, node: Node) -> None:
    x, _ = middle(node)
    top = node.bounds[1]
    ink = brush.accent if node.selected else brush.theme.subtext
    if node.icon:
        if node.selected:
            brush.canvas.round_rect(x - 28, top + 3, x + 28, top + 31, 14, mix(brush.theme.surface, brush.accent, 0.25))
        brush.icon(node.icon, x, top + 17, 20, ink)
    y = top + 43 if node.icon else middle(node)[1]
    brush.canvas.text(node.text, x, y, node.size, ink, "center", node.selected, room=node.bounds[2] - node.bounds[0])


def _dialog(brush: Brush, node: Node) -> None:
    brush.canvas.round_rect(*node.bounds, 28, brush.theme.dialog)


def _snack(brush: Brush, node: Node) -> None:
    left, _, right, _ = node.bounds
    fill = (232, 234, 237) if brush.theme.dark else (50, 50, 53)
    brush.canvas.cover(*node.bounds)
    brush.canvas.round_rect(*node.bounds, 6, fill)
    ink = mix(fill, brush.theme.surface, 0.95)
    brush.write(node.text, (left + 16, right - 16), middle(node)[1], node.size, ink, room=right - left - 32)


LOOKS: dict[str, Look] = {
    "text": _text,
    "subtext": _subtext,
    "section": _section,
    "clock": _clock,
    "appbar": _app_bar,
    "title": _title,
    "icon": _icon,
    "row_icon": _row_icon,
    "avatar": _avatar,
    "row": _row,
    "button": _button,
    "text_button": _text_button,
    "fab": _fab,
    "switch": _switch,
    "checkbox": _checkbox,
    "radio": _radio,
    "field": draw_field,
    "tile": draw_tile,
    "bottom_bar": _bottom_bar,
    "rail": _bottom_bar,
    "hint": _hint,
    "tab": _tab,
    "dialog": _dialog,
    "snack": _snack,
    "bubble": _bubble,
    "key": _key,
    "card": _card,
    "quick_tile": _quick_tile,
    "composer": draw_composer,
}
