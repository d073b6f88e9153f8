"""Drawing in dp on a Pillow image: smooth shapes, icons and text, all from cached masks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFilter

from mobilerl.envs.phone import fonts
from mobilerl.envs.phone.icons import SHAPES, SMOOTH, icon_mask
from mobilerl.envs.phone.theme import RGB

CAPITALS = 0.711
"""Height of Roboto's capital letters, in font sizes."""


@dataclass(frozen=True, slots=True)
class Written:
    """A line that was drawn: `text` as asked for, `shown` as it fits, the `box` of its ink in px."""

    text: str
    shown: str
    box: tuple[int, int, int, int]


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

    def __init__(self, width: int, height: int, scale: float, color: RGB, written: list[Written] | None = None) -> None:
        """With a list `written`, every line of text is noted there."""
        self.written = written
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

    def icon(self, name: str, x: float, y: float, size: float, color: RGB, turned_over: bool = False) -> None:
        """An icon centered at (x, y); a name that is no icon is drawn as its first letter."""
        if name not in SHAPES:
            self.text(name[:1].upper(), x, y, size * 0.8, color, align="center", bold=True)
            return
        mask = icon_mask(name, max(4, self.px(size)), turned_over)
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
        """One line, vertically centered on y; `align` says what x is. Cut to `room` dp if given. Returns its width."""
        shown = fonts.elide(text, size, max(1, room), bold) if room else text
        if not shown:
            return 0
        pixels = max(4.0, size * self.scale)
        width = fonts.text_width(shown, size, bold)
        x -= width / 2 if align == "center" else width if align == "right" else 0
        left, top = self.px(x), round(y * self.scale + (CAPITALS / 2 - fonts.ASCENT) * pixels)
        parts = fonts.draw_line(shown, pixels, bold)
        for dx, dy, part in parts:
            self.image.paste(color if part.mode == "L" else part, (left + dx, top + dy), part)
        if self.written is not None and parts:
            corners = [(dx, dy, dx + part.width, dy + part.height) for dx, dy, part in parts]
            box = [choose(side) for choose, side in zip((min, min, max, max), zip(*corners, strict=True), strict=True)]
            self.written.append(Written(text, shown, (left + box[0], top + box[1], left + box[2], top + box[3])))
        return width

    @contextmanager
    def viewport(self, bounds: tuple[float, float, float, float]) -> Iterator[None]:
        """Clips what is drawn inside the `with` block to the rows between the top and the bottom of `bounds`."""
        before, count = self.image.copy(), len(self.written or ())
        top, bottom = self.px(bounds[1]), self.px(bounds[3])
        yield
        for strip in ((0, 0, before.width, top), (0, bottom, before.width, before.height)):
            self.image.paste(before.crop(strip), strip)
        if self.written is not None:
            self.written[count:] = [w for w in self.written[count:] if top <= w.box[1] and w.box[3] <= bottom]

    def cover(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """Notes that something opaque is about to be drawn: the lines below it can no longer be seen whole."""
        if self.written is not None:
            left, top, right, bottom = self.px(x1), self.px(y1), self.px(x2), self.px(y2)
            self.written[:] = [
                w
                for w in self.written
                if w.box[2] <= left or w.box[0] >= right or w.box[3] <= top or w.box[1] >= bottom
            ]

    def darken(self, share: float) -> None:
        """Everything drawn so far, `share` darker."""
        table = [round(v * (1 - share)) for v in range(256)] * 3
        self.image.paste(self.image.point(table))
