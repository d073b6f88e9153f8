"""Drawing in dp on a Pillow image: smooth shapes, icons and text, all from cached masks."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFilter, ImageFont

from envs.phone.icons import SHAPES, SMOOTH, icon_mask
from envs.phone.theme import RGB

_PLAIN = str.maketrans({**dict(zip("×÷−–—•·’‘“”øØł", "x/---*-''\"\"oOl", strict=True)), "ß": "ss", "æ": "ae"})
"""The built-in font knows ASCII and little else."""


@lru_cache(maxsize=64)
def font(size: int) -> ImageFont.FreeTypeFont:
    """The font that comes with Pillow (Aileron), so that every machine draws the same."""
    return ImageFont.load_default(size)


@lru_cache(maxsize=4096)
def printable(text: str) -> str:
    """`text` in characters the font has: accents are dropped, what is left unknown becomes a question mark."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKD", text.translate(_PLAIN))
    return "".join(c if c in "…" or c.isascii() else "?" for c in text if not unicodedata.combining(c))


@lru_cache(maxsize=8192)
def text_width(text: str, size: int) -> float:
    return font(size).getlength(printable(text))


@lru_cache(maxsize=16384)
def elided(text: str, size: int, room: int) -> str:
    """`text` cut to `room` px, with an ellipsis when something is missing."""
    if text_width(text, size) <= room:
        return text
    measure = font(size).getlength  # not through the cache: these beginnings of texts are not asked for again
    too_long = bisect_left(
        range(1, len(text)), True, key=lambda keep: measure(printable(text[:keep].rstrip() + "…")) > room
    )
    return text[:too_long].rstrip() + "…"


@lru_cache(maxsize=4096)
def _text_mask(text: str, size: int, bold: bool) -> Image.Image:
    text = printable(text)
    # Bold is drawn twice, a little apart: the built-in font has one weight.
    shift = max(1, round(size / 22)) if bold else 0
    mask = Image.new("L", (int(text_width(text, size)) + shift + 2, round(size * 1.4)), 0)
    pen = ImageDraw.Draw(mask)
    for dx in range(shift + 1):
        pen.text((dx, 0), text, font=font(size), fill=255)
    return mask


@lru_cache(maxsize=256)
def _disc(diameter: int) -> Image.Image:
    big = Image.new("L", (diameter * SMOOTH, diameter * SMOOTH), 0)
    ImageDraw.Draw(big).ellipse((0, 0, diameter * SMOOTH - 1, diameter * SMOOTH - 1), fill=255)
    return big.reduce(SMOOTH)


@lru_cache(maxsize=256)
def _corners(radius: int) -> tuple[Image.Image, ...]:
    disc = _disc(2 * radius)
    boxes = ((0, 0), (radius, 0), (0, radius), (radius, radius))
    return tuple(disc.crop((x, y, x + radius, y + radius)) for x, y in boxes)


@lru_cache(maxsize=32)
def _shadow(diameter: int, blur: int) -> Image.Image:
    mask = Image.new("L", (diameter + 4 * blur, diameter + 4 * blur), 0)
    mask.paste(90, (2 * blur, 2 * blur), _disc(diameter))
    return mask.filter(ImageFilter.GaussianBlur(blur))


class Canvas:
    """An RGB image `width` x `height` px. Everything is given in dp; `scale` is pixels per dp."""

    def __init__(self, width: int, height: int, scale: float, color: RGB) -> None:
        self.image = Image.new("RGB", (width, height), color)
        self.scale = scale
        self._pen = ImageDraw.Draw(self.image)

    def px(self, dp: float) -> int:
        return round(dp * self.scale)

    def rect(self, x1: float, y1: float, x2: float, y2: float, color: RGB) -> None:
        left, top, right, bottom = self.px(x1), self.px(y1), self.px(x2), self.px(y2)
        if right > left and bottom > top:
            self.image.paste(color, (left, top, right, bottom))

    def round_rect(self, x1: float, y1: float, x2: float, y2: float, radius: float, color: RGB) -> None:
        left, top, right, bottom = self.px(x1), self.px(y1), self.px(x2), self.px(y2)
        r = min(self.px(radius), (right - left) // 2, (bottom - top) // 2)
        if r <= 0:
            self.rect(x1, y1, x2, y2, color)
            return
        self.image.paste(color, (left + r, top, right - r, bottom))
        self.image.paste(color, (left, top + r, right, bottom - r))
        spots = ((left, top), (right - r, top), (left, bottom - r), (right - r, bottom - r))
        for spot, corner in zip(spots, _corners(r), strict=True):
            self.image.paste(color, spot, corner)

    def disc(self, x: float, y: float, radius: float, color: RGB) -> None:
        diameter = max(1, self.px(2 * radius))
        self.image.paste(color, (self.px(x) - diameter // 2, self.px(y) - diameter // 2), _disc(diameter))

    def shadow(self, x: float, y: float, radius: float) -> None:
        """A soft shadow of a disc."""
        blur = max(1, self.px(4))
        mask = _shadow(self.px(2 * radius), blur)
        self.image.paste((0, 0, 0), (self.px(x) - mask.width // 2, self.px(y) - mask.height // 2), mask)

    def icon(self, name: str, x: float, y: float, size: float, color: RGB) -> None:
        """An icon centred at (x, y); a name that is no icon is drawn as its first letter."""
        if name not in SHAPES:
            self.text(name[:1].upper(), x, y, size * 0.8, color, align="center", bold=True)
            return
        mask = icon_mask(name, max(4, self.px(size)))
        self.image.paste(color, (self.px(x) - mask.width // 2, self.px(y) - mask.height // 2), mask)

    def text(
        self,
        text: str,
        x: float,
        y: float,
        size: float,
        color: RGB,
        align: str = "left",
        bold: bool = False,
        room: float = 0,
    ) -> float:
        """One line, vertically centred on y; `align` says what x is. Cut to `room` dp if given. Returns its width."""
        pixels = max(4, self.px(size))
        if room:
            text = elided(text, pixels, max(1, self.px(room)))
        if not text:
            return 0
        mask = _text_mask(text, pixels, bold)
        left = self.px(x) - (mask.width // 2 if align == "center" else mask.width if align == "right" else 0)
        # The capital letters' middle lies at 0.66 of the font size below the top of the mask.
        self.image.paste(color, (left, self.px(y) - round(pixels * 0.66)), mask)
        return mask.width / self.scale

    def darken(self, share: float) -> None:
        """Everything drawn so far, `share` darker."""
        table = [round(v * (1 - share)) for v in range(256)] * 3
        self.image.paste(self.image.point(table))
