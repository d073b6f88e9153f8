"""How each kind of node is drawn: one function per `Node.look`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from envs.phone.canvas import Canvas
from envs.phone.fonts import text_width, wrapped
from envs.phone.theme import RGB, WHITE, Theme, accent, bar_color, brightness, mix, rgb
from envs.phone.ui import LINE_PITCH, Bounds, Node

AVATARS = ("#5C6BC0", "#26A69A", "#EF6C00", "#AB47BC", "#42A5F5", "#66BB6A", "#EC407A", "#8D6E63")
SYMBOLS = dict(zip("+-−×÷=%⌫", "plus minus minus times divide equals percent erase".split(), strict=True))
"""Button texts that look better drawn than written."""


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


def _middle(node: Node) -> tuple[float, float]:
    left, top, right, bottom = node.bounds
    return (left + right) / 2, (top + bottom) / 2


def _ink(brush: Brush, node: Node, default: RGB) -> RGB:
    ink = accent(node.color, brush.theme.dark) if node.color else default
    return ink if node.enabled else brush.theme.outline


def _text(brush: Brush, node: Node) -> None:
    left, top, right, bottom = node.bounds
    width = right - left - 2 * node.pad[0]
    ink = _ink(brush, node, brush.theme.text)
    pitch = node.size * LINE_PITCH
    lines = [node.text] if bottom - top < 2 * pitch else wrapped(node.text, width, node.size, node.bold)
    y = (top + bottom) / 2 - pitch * (len(lines) - 1) / 2
    x = {"center": (left + right) / 2, "right": right - node.pad[0]}.get(node.align, left + node.pad[0])
    for line in lines:
        brush.canvas.text(line, x, y, node.size, ink, node.align, node.bold, room=max(width, 8))
        y += pitch


def _bubble(brush: Brush, node: Node) -> None:
    """A chat message: the sender's own in the app's colour, the others' in grey."""
    fill = mix(brush.theme.surface, brush.accent, 0.25) if node.color else brush.theme.divider
    left, top, right, bottom = node.bounds
    brush.canvas.round_rect(left, top + 2, right, bottom - 2, 16, fill)
    _text(brush, replace(node, color=""))


def _subtext(brush: Brush, node: Node) -> None:
    left, _, right, _ = node.bounds
    ink = _ink(brush, node, brush.theme.subtext)
    brush.canvas.text(node.text, left, _middle(node)[1], node.size, ink, bold=node.bold, room=right - left)


def _section(brush: Brush, node: Node) -> None:
    left, _, right, _ = node.bounds
    y = _middle(node)[1] + 3
    brush.canvas.text(node.text, left + 16, y, node.size, brush.accent, bold=True, room=right - left - 32)


def _clock(brush: Brush, node: Node) -> None:
    x, y = _middle(node)
    brush.canvas.text(node.text, x, y, node.size, WHITE, "center")


def _app_bar(brush: Brush, node: Node) -> None:
    left, _, right, bottom = node.bounds
    brush.canvas.rect(left, 0, right, bottom, bar_color(brush.color, brush.theme))


def _title(brush: Brush, node: Node) -> None:
    left, _, right, _ = node.bounds
    brush.canvas.text(node.text, left + 8, _middle(node)[1], node.size, brush.theme.text, room=right - left - 12)


def _icon(brush: Brush, node: Node) -> None:
    ink = _ink(brush, node, mix(brush.theme.text, brush.theme.surface, 0.2))
    brush.canvas.icon(node.icon, *_middle(node), 22, ink)


def _row_icon(brush: Brush, node: Node) -> None:
    side = min(24, 0.7 * (node.bounds[2] - node.bounds[0]))
    brush.canvas.icon(node.icon, *_middle(node), side, _ink(brush, node, brush.theme.subtext))


def _avatar(brush: Brush, node: Node) -> None:
    x, y = _middle(node)
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
    x, y = _middle(node)
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
    _label(brush, node, _ink(brush, node, brush.theme.text))


def _text_button(brush: Brush, node: Node) -> None:
    _label(brush, node, _ink(brush, node, brush.accent))


def _fab(brush: Brush, node: Node) -> None:
    x, y = _middle(node)
    fill = mix(brush.theme.surface, brush.accent, 0.45 if brush.theme.dark else 0.28)
    brush.canvas.shadow(x, y + 4, 24)
    brush.canvas.round_rect(x - 28, y - 28, x + 28, y + 28, 16, fill)
    brush.canvas.icon(node.icon, x, y, 24, mix(brush.accent, WHITE if brush.theme.dark else (0, 0, 0), 0.5))


def _switch(brush: Brush, node: Node) -> None:
    x, y = _middle(node)
    canvas, theme = brush.canvas, brush.theme
    if node.checked:
        canvas.round_rect(x - 22, y - 13, x + 22, y + 13, 13, brush.accent)
        canvas.disc(x + 9, y, 10, brush.on_accent)
        canvas.icon("check", x + 9, y, 13, brush.accent)
        return
    off = mix(theme.surface, theme.text, 0.08)
    canvas.round_rect(x - 22, y - 13, x + 22, y + 13, 13, theme.subtext)
    canvas.round_rect(x - 20, y - 11, x + 20, y + 11, 11, off)
    canvas.disc(x - 9, y, 7, theme.subtext)


def _checkbox(brush: Brush, node: Node) -> None:
    x, y = _middle(node)
    if node.checked:
        brush.canvas.round_rect(x - 9, y - 9, x + 9, y + 9, 3, brush.accent)
        brush.canvas.icon("check", x, y, 16, brush.on_accent)
    else:
        brush.canvas.round_rect(x - 9, y - 9, x + 9, y + 9, 3, brush.theme.subtext)
        brush.canvas.round_rect(x - 7, y - 7, x + 7, y + 7, 1.5, brush.theme.surface)


def _radio(brush: Brush, node: Node) -> None:
    x, y = _middle(node)
    brush.canvas.disc(x, y, 10, brush.accent if node.checked else brush.theme.subtext)
    brush.canvas.disc(x, y, 8, brush.theme.surface)
    if node.checked:
        brush.canvas.disc(x, y, 5, brush.accent)


def _field(brush: Brush, node: Node) -> None:
    canvas, theme = brush.canvas, brush.theme
    left, top, right, bottom = node.bounds
    left, top, right, bottom = left + node.pad[0], top + node.pad[1], right - node.pad[0], bottom - node.pad[1]
    line = 2 if node.focused else 1
    canvas.round_rect(left, top, right, bottom, 6, brush.accent if node.focused else theme.outline)
    canvas.round_rect(left + line, top + line, right - line, bottom - line, 5, theme.surface)
    width, many = right - left - 24, bottom - top > 60
    text = "*" * len(node.text) if node.password else node.text
    lines = wrapped(text, width, node.size) if many else [text]
    y = top + 24 if many else (top + bottom) / 2
    if not node.text:
        canvas.text(node.hint, left + 12, y, node.size, theme.subtext, room=width)
    elif node.hint:
        label = text_width(node.hint, 11)
        canvas.rect(left + 8, top, left + 16 + label, top + line, theme.surface)
        canvas.text(node.hint, left + 12, top + 1, 11, brush.accent if node.focused else theme.subtext)
    end = 0.0
    for line_text in lines:
        shown = _tail(line_text, node.size, width) if node.focused else line_text
        end = canvas.text(shown, left + 12, y, node.size, theme.text, room=width)
        y += node.size * LINE_PITCH
    if node.focused:
        y -= node.size * LINE_PITCH
        canvas.rect(left + 11 + end, y - 10, left + 12.5 + end, y + 10, brush.accent)


def _composer(brush: Brush, node: Node) -> None:
    """A field without a frame, as below a conversation."""
    canvas, theme = brush.canvas, brush.theme
    left, top, right, bottom = node.bounds
    left, top, right, bottom = left + node.pad[0], top + node.pad[1], right - node.pad[0], bottom - node.pad[1]
    canvas.round_rect(left, top, right, bottom, 24, mix(theme.surface, brush.accent, 0.12))
    width, y = right - left - 32, (top + bottom) / 2
    shown = _tail(node.text, node.size, width) if node.focused else node.text
    ink = theme.text if node.text else theme.subtext
    end = canvas.text(shown or node.hint, left + 16, y, node.size, ink, room=width)
    if node.focused:
        x = left + 16 + (end if node.text else 0)
        canvas.rect(x - 1, y - 10, x + 0.5, y + 10, brush.accent)


def _tail(text: str, size: int, room: float) -> str:
    """The end of a text that is longer than its field, as a field shows it while one types."""
    while text and text_width(text, size) > room:
        text = text[1:]
    return text


def _picture(brush: Brush, node: Node) -> None:
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


def _tile(brush: Brush, node: Node) -> None:
    x, _ = _middle(node)
    left, top, right, bottom = node.bounds
    canvas, fill = brush.canvas, rgb(node.color)
    if not node.text:
        _picture(brush, node)
        return
    side = min(52, bottom - top - 30)
    y = top + 8 + side / 2
    canvas.round_rect(x - side / 2, y - side / 2, x + side / 2, y + side / 2, side * 0.3, fill)
    canvas.icon(node.icon, x, y, side * 0.56, WHITE if brightness(fill) < 0.8 else (60, 64, 67))
    ink = WHITE if brush.on_wallpaper else brush.theme.text
    canvas.text(node.text, x, y + side / 2 + 13, node.size, ink, "center", room=right - left)


def _bottom_bar(brush: Brush, node: Node) -> None:
    brush.canvas.rect(*node.bounds, bar_color(brush.color, brush.theme))


def _tab(brush: Brush, node: Node) -> None:
    x, _ = _middle(node)
    top = node.bounds[1]
    ink = brush.accent if node.selected else brush.theme.subtext
    if node.icon:
        if node.selected:
            brush.canvas.round_rect(x - 28, top + 3, x + 28, top + 31, 14, mix(brush.theme.surface, brush.accent, 0.25))
        brush.canvas.icon(node.icon, x, top + 17, 20, ink)
    y = top + 43 if node.icon else _middle(node)[1]
    brush.canvas.text(node.text, x, y, node.size, ink, "center", node.selected, room=node.bounds[2] - node.bounds[0])


def _dialog(brush: Brush, node: Node) -> None:
    brush.canvas.round_rect(*node.bounds, 28, brush.theme.dialog)


def _snack(brush: Brush, node: Node) -> None:
    left, _, right, _ = node.bounds
    fill = (232, 234, 237) if brush.theme.dark else (50, 50, 53)
    brush.canvas.cover(*node.bounds)
    brush.canvas.round_rect(*node.bounds, 6, fill)
    ink = mix(fill, brush.theme.surface, 0.95)
    brush.canvas.text(node.text, left + 16, _middle(node)[1], node.size, ink, room=right - left - 32)


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
    "field": _field,
    "tile": _tile,
    "bottom_bar": _bottom_bar,
    "tab": _tab,
    "dialog": _dialog,
    "snack": _snack,
    "bubble": _bubble,
    "key": _key,
    "card": _card,
    "quick_tile": _quick_tile,
    "composer": _composer,
}
