"""The screen as an image: system bars, the app's tree, dialog and keyboard, drawn with Pillow and written as PNG."""

from __future__ import annotations

import struct
import zlib
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from operator import attrgetter

from PIL import Image

from mobilerl.envs.phone.brush import Brush
from mobilerl.envs.phone.canvas import Canvas, Written
from mobilerl.envs.phone.keyboard import DELETE, ENTER, KEYS, SHIFT, keyboard_top
from mobilerl.envs.phone.looks import draw
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.theme import DARK, LIGHT, RGB, WHITE, Theme, accent, bar_color, mix
from mobilerl.envs.phone.ui import KEYBOARD, NAV_BAR, SCREEN_DP, STATUS_BAR, Tree

CACHED_SCREENS = 256
SCRIM = 0.45
ZLIB_LEVEL, ZLIB_MEMORY = 2, 6
"""The fastest on these images: what does not fit in the processor's cache costs more than it saves."""
_FACTS = attrgetter(
    *"bounds look text icon color hint size bold align checked selected focused enabled password".split()
)
"""The attributes that a node's image depends on."""
WALLPAPER: tuple[RGB, RGB] = ((38, 70, 120), (110, 140, 180))

_cache: OrderedDict[Hashable, bytes] = OrderedDict()


def png(phone: Phone) -> bytes:
    """PNG bytes of what the phone shows. Screens that were drawn lately are not drawn again."""
    key = _signature(phone)
    data = _cache.get(key)
    if data is None:
        data = encode(draw_screen(phone))
        _cache[key] = data
        if len(_cache) > CACHED_SCREENS:
            _cache.popitem(last=False)
    else:
        _cache.move_to_end(key)
    return data


def clear_cache() -> None:
    """Forgets the images (for benchmarks)."""
    _cache.clear()


def encode(image: Image.Image) -> bytes:
    """An RGB image as PNG. Unfiltered rows and a fast zlib level: half the time of Pillow's encoder."""
    width, height = image.size
    # A row begins with the number of its filter, 0. The raw encoder adds it as the padding of the row before.
    rows = memoryview(image.tobytes("raw", "RGB", 3 * width + 1, 1))[:-1]
    squeeze = zlib.compressobj(ZLIB_LEVEL, memLevel=ZLIB_MEMORY)
    packed = squeeze.compress(b"\0") + squeeze.compress(rows) + squeeze.flush()
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", packed), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def _status(phone: Phone) -> tuple[str, ...]:
    """Content of the status bar: the time, then icons from the right."""

    def on(key: str) -> bool:
        return phone.settings["global"].get(key, "0") != "0"

    shown = {
        "battery": True,
        "airplane": on("airplane_mode_on"),
        "signal": not on("airplane_mode_on"),
        "wifi_full": on("wifi_on"),
        "bluetooth": on("bluetooth_on"),
        "do_not_disturb": on("zen_mode"),
    }
    return phone.clock, *(name for name, visible in shown.items() if visible)


def _theme(phone: Phone) -> Theme:
    return DARK if phone.dark else LIGHT


def _signature(phone: Phone) -> Hashable:
    """Everything the image depends on."""
    tree = phone.tree()
    nodes = [_FACTS(n) for n in tree.root.walk()]
    if tree.window is not tree.root:
        nodes += [("dialog", *_FACTS(n)) for n in tree.window.walk()]
    if not phone.awake:
        return (phone.width, phone.height, None)
    app = phone.foreground
    screen = (phone.width, phone.height, phone.scale, app.package, phone.panel is not None, phone.language.rtl)
    return (*screen, _theme(phone).dark, tree.keyboard, _status(phone), *nodes)


def draw_screen(phone: Phone, written: list[Written] | None = None) -> Image.Image:
    """Draws the screen. The lines of text that can be read on it are added to `written`, if given."""
    if not phone.awake:
        return Image.new("RGB", (phone.width, phone.height))
    tree, theme = phone.tree(), _theme(phone)
    width = tree.root.bounds[2]
    home = phone.foreground is phone.launcher and phone.panel is None
    color = phone.foreground.color if phone.panel is None else ""
    canvas = Canvas(phone.width, phone.height, phone.scale, theme.surface, written)
    if home:
        canvas.image.paste(_wallpaper(phone.width, phone.height))
    rtl = phone.language.rtl
    brush = Brush(canvas, theme, color, home, rtl)
    _draw_root(brush, tree, bars=not home)
    dark_bars = home or theme.dark
    if tree.window is not tree.root:
        canvas.darken(SCRIM)
        canvas.cover(*tree.root.bounds)
        dark_bars = True
    _draw_status(canvas, _status(phone), WHITE if dark_bars else (60, 64, 67), width, rtl)
    if tree.window is not tree.root:
        draw(Brush(canvas, replace(theme, surface=theme.dialog), color, rtl=rtl), tree.window)
    height = phone.height / phone.scale
    if tree.keyboard:
        _draw_keyboard(canvas, theme, width, height)
        dark_bars = theme.dark
    pill = WHITE if dark_bars else mix(theme.text, theme.surface, 0.2)
    canvas.round_rect(width / 2 - 54, height - 12, width / 2 + 54, height - 8, 2, pill)
    return canvas.image


def _draw_root(brush: Brush, tree: Tree, bars: bool) -> None:
    """The body first: what is scrolled out of it disappears below the bars."""
    for pane in tree.panes:
        _draw_root(brush, pane, bars)
    if tree.panes:
        for node in tree.root.children:
            if node.look != "window":
                draw(brush, node)
        begin = 2 if brush.rtl else 0
        edges = {node.bounds[begin] for node in tree.root.children if node.look != "rail"}
        for x in edges - {tree.panes[0].root.bounds[begin]}:
            brush.canvas.rect(x, 0, x + 1, tree.root.bounds[3], brush.theme.divider)
        return
    left, _, width, _ = tree.root.bounds
    body, others = tree.body, [n for n in tree.root.children if n.look != "body"]
    for node in tree.root.children:
        if node.look == "body":
            draw(brush, node)
    brush.canvas.cover(left, 0, width, body[1])
    brush.canvas.cover(left, body[3], width, tree.root.bounds[3] + body[3])
    if bars:
        brush.canvas.rect(left, 0, width, body[1], brush.theme.surface)
        if others and others[0].look == "appbar":
            brush.canvas.rect(left, 0, width, STATUS_BAR, bar_color(brush.color, brush.theme))
        brush.canvas.rect(left, body[3], width, tree.root.bounds[3], brush.theme.surface)
        if any(n.look == "bottom_bar" for n in others):
            brush.canvas.rect(left, body[3], width, tree.root.bounds[3], bar_color(brush.color, brush.theme))
    for node in others:
        draw(brush, node)


def _draw_status(canvas: Canvas, status: tuple[str, ...], ink: RGB, width: int, rtl: bool) -> None:
    clock, *icons = status
    middle = STATUS_BAR / 2 + 1
    canvas.text(clock, width - 16 if rtl else 16, middle, 13, ink, "right" if rtl else "left", bold=True)
    x, step = (22.0, 19) if rtl else (width - 22.0, -19)
    for name in icons:
        if name == "signal":
            for i in range(4):
                canvas.rect(x - 6 + 3.5 * i, middle + 5 - 2.6 * (i + 1), x - 4 + 3.5 * i, middle + 5, ink)
        else:
            canvas.icon(name, x, middle, 14, ink)
        x += step


def _draw_keyboard(canvas: Canvas, theme: Theme, width: int, height: float) -> None:
    top = keyboard_top(height)
    canvas.rect(0, top, width, height, theme.keyboard)
    stretch, squeeze = width / SCREEN_DP, (height - NAV_BAR - top) / KEYBOARD
    special = mix(theme.keyboard, theme.text, 0.14)
    for key in KEYS:
        x1, x2, y1, y2 = key.box[0] * stretch, key.box[2] * stretch, key.box[1] * squeeze, key.box[3] * squeeze
        box = (x1 + 2.5, top + y1 + 4 * squeeze, x2 - 2.5, top + y2 - 4 * squeeze)
        middle = ((x1 + x2) / 2, top + (y1 + y2) / 2)
        if key.name == ENTER:
            canvas.round_rect(*box, 20, accent("", theme.dark))
            canvas.icon("check", *middle, 20, WHITE)
        elif key.name in (SHIFT, DELETE):
            canvas.round_rect(*box, 6, special)
            canvas.icon("erase" if key.name == DELETE else "shift", *middle, 20, theme.text)
        else:
            canvas.round_rect(*box, 6, theme.key if len(key.name) == 1 and key.name not in ",." else special)
            if key.name != " ":
                canvas.text(key.name, *middle, 18 if len(key.name) == 1 else 13, theme.text, "center")


_wallpapers: dict[tuple[int, int], Image.Image] = {}


def _wallpaper(width: int, height: int) -> Image.Image:
    """A vertical gradient."""
    if (width, height) not in _wallpapers:
        column = Image.new("RGB", (1, height))
        column.putdata([mix(*WALLPAPER, y / height) for y in range(height)])
        _wallpapers[width, height] = column.resize((width, height))
    return _wallpapers[width, height]
