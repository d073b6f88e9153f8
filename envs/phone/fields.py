"""How edit fields are drawn."""

from __future__ import annotations

from bisect import bisect_left

from mobilerl.envs.phone.bidi import levels
from mobilerl.envs.phone.brush import Brush
from mobilerl.envs.phone.fonts import text_width, wrap_text
from mobilerl.envs.phone.theme import mix
from mobilerl.envs.phone.ui import LINE_PITCH, Node


def draw_field(brush: Brush, node: Node) -> None:
    canvas, theme = brush.canvas, brush.theme
    left, top, right, bottom = node.bounds
    left, top, right, bottom = left + node.pad[0], top + node.pad[1], right - node.pad[0], bottom - node.pad[1]
    line = 2 if node.focused else 1
    canvas.round_rect(left, top, right, bottom, 6, brush.accent if node.focused else theme.outline)
    canvas.round_rect(left + line, top + line, right - line, bottom - line, 5, theme.surface)
    width, many = right - left - 24, bottom - top > 3 * node.size
    text = "*" * len(node.text) if node.password else node.text
    lines = wrap_text(text, width, node.size) if many else [text]
    y = top + 24 if many else (top + bottom) / 2
    span = (left + 12, right - 12)
    if not node.text:
        brush.write(node.hint, span, y, node.size, theme.subtext, room=width)
    elif node.hint:
        label = text_width(node.hint, 11)
        start = right - 16 - label if brush.rtl else left + 8
        canvas.rect(start, top, start + 8 + label, top + line, theme.surface)
        brush.write(node.hint, span, top + 1, 11, brush.accent if node.focused else theme.subtext)
    end = 0.0
    for line_text in lines:
        shown = _tail(line_text, node.size, width) if node.focused else line_text
        end = brush.write(shown, span, y, node.size, theme.text, room=width)
        y += node.size * LINE_PITCH
    if node.focused:
        x = _caret(brush, lines[-1], span, end)
        y -= node.size * LINE_PITCH
        canvas.rect(x - 1, y - 10, x + 0.5, y + 10, brush.accent)


def draw_composer(brush: Brush, node: Node) -> None:
    """A field without a frame, as below a conversation."""
    canvas, theme = brush.canvas, brush.theme
    left, top, right, bottom = node.bounds
    left, top, right, bottom = left + node.pad[0], top + node.pad[1], right - node.pad[0], bottom - node.pad[1]
    canvas.round_rect(left, top, right, bottom, 24, mix(theme.surface, brush.accent, 0.12))
    width, y = right - left - 32, (top + bottom) / 2
    shown = _tail(node.text, node.size, width) if node.focused else node.text
    ink = theme.text if node.text else theme.subtext
    span = (left + 16, right - 16)
    end = brush.write(shown or node.hint, span, y, node.size, ink, room=width)
    if node.focused:
        x = _caret(brush, node.text, span, end if node.text else 0)
        canvas.rect(x - 1, y - 10, x + 0.5, y + 10, brush.accent)


def _caret(brush: Brush, text: str, span: tuple[float, float], width: float) -> float:
    """Where the end of a text is that is `width` wide."""
    left, right = span
    if not brush.rtl:
        return left + width
    return right - width if not text or levels(text)[-1] % 2 else right


def _tail(text: str, size: int, room: float) -> str:
    """The end of a text that is longer than its field, as a field shows it while one types."""
    if text_width(text, size) <= room:
        return text
    text = text[-int(5 * room / size) - 2 :]  # more characters than there is room for
    return text[bisect_left(range(len(text)), True, key=lambda start: text_width(text[start:], size) <= room) :]
