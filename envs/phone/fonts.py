"""The phone's fonts: which of them draws a character, how wide a text is and what it looks like.

Roboto, a Python package, draws Latin, Greek and Cyrillic, so that these look the same on every machine. Other scripts
take the fonts of `SYSTEM` that the machine has; a character that none of them has is drawn as an empty box.
"""

from __future__ import annotations

import os
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from operator import itemgetter

import fontpkg_roboto
from PIL import Image, ImageDraw, ImageFont, features

from mobilerl.envs.phone.bidi import levels, mirror_run, visual_order

ROBOTO = str(fontpkg_roboto.ROOT / "files" / "Roboto[wdth,wght].ttf")
REGULAR, MEDIUM = [400.0, 100.0], [500.0, 100.0]
"""Weight and width of Roboto for plain and for bold texts."""
FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")
SYSTEM = {
    "Arabic": ("NotoSansArabic-Regular.ttf", "DejaVuSans.ttf"),
    "Hebrew": ("NotoSansHebrew-Regular.ttf", "DejaVuSans.ttf"),
    "Devanagari": ("NotoSansDevanagari-Regular.ttf",),
    "Chinese, Japanese, Korean": ("NotoSansCJK-Regular.ttc", "wqy-microhei.ttc", "DroidSansFallbackFull.ttf"),
    "emoji": ("NotoColorEmoji.ttf",),
    "symbols": ("NotoSansSymbols2-Regular.ttf", "DejaVuSans.ttf"),
}
"""File names by what they are for, the best first. Of each line the first file that is found is used."""
PACKAGES = "fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji"
"""Debian's packages that have a font for every line of `SYSTEM`."""

MEASURED_AT = 64
"""Texts are measured at this size in pixels: widths are proportional to the size, so layouts fit every resolution."""
SMOOTH = 2
"""Glyphs are drawn this many times larger and averaged, which gives them the exact widths that were measured."""
ASCENT, LINE = 1.15, 1.65
"""Height of a mask above its baseline, and in all, in font sizes."""
EMOJI_SIZE = 109
"""The only size, in pixels, that the bitmaps of Noto Color Emoji have."""
TOFU = 0.6
"""Width of the box for a character without a font, in font sizes."""
EMOJI_ASCENT = 101 / EMOJI_SIZE
_AS_TEXT, _AS_EMOJI = "\ufe0e\ufe0f"


@dataclass(frozen=True, slots=True)
class Run:
    """A part of a text that one font draws in one direction. `font` is a path, "" for boxes."""

    text: str
    font: str
    level: int = 0
    """Depth of embedding: odd levels run from right to left."""


@cache
def stack() -> dict[str, str]:
    """The fonts that are used, by what they are for, in the order in which they are asked for a character."""
    wanted = {name for names in SYSTEM.values() for name in names}
    found: dict[str, str] = {}
    for folder in FOLDERS:
        for place, _, names in os.walk(os.path.expanduser(folder)):
            found |= {name: os.path.join(place, name) for name in names if name in wanted and name not in found}
    fonts = {kind: next((found[n] for n in names if n in found), "") for kind, names in SYSTEM.items()}
    return {"Latin, Greek, Cyrillic": ROBOTO} | {kind: path for kind, path in fonts.items() if path}


def shapes_text() -> bool:
    """Whether Pillow can join Arabic letters and order Devanagari ones; it needs the system's libfribidi."""
    return bool(features.check("raqm"))


@lru_cache(maxsize=256)
def _font(path: str, size: int, bold: bool = False, shaped: bool = True) -> ImageFont.FreeTypeFont:
    shaped = shaped and path != ROBOTO and shapes_text()
    font = ImageFont.truetype(path, size, layout_engine=ImageFont.Layout.RAQM if shaped else ImageFont.Layout.BASIC)
    if path == ROBOTO:
        font.set_variation_by_axes(MEDIUM if bold else REGULAR)
    return font


def _is_emoji(path: str) -> bool:
    return path.endswith("NotoColorEmoji.ttf")


@lru_cache(maxsize=16384)
def _has(path: str, character: str) -> bool:
    """Whether a font has a glyph: what it lacks, it draws as it draws a code point that is no character."""
    font = _font(path, EMOJI_SIZE if _is_emoji(path) else 32, shaped=False)
    return bytes(font.getmask(character)) != bytes(font.getmask("\U0010ffff"))


def _font_of(character: str, last: str, following: str) -> str:
    """The font of a character; `last` is that of the character before it, `following` the character behind it."""
    if following == _AS_EMOJI and (emoji := stack().get("emoji")):
        return emoji
    # Spaces, punctuation and accents stay with the text before them.
    alone = unicodedata.category(character).startswith(("L", "S", "N"))
    if last and not alone and not _is_emoji(last) and _has(last, character):
        return last
    return next((path for path in stack().values() if _has(path, character)), "")


@lru_cache(maxsize=16384)
def runs(text: str) -> tuple[Run, ...]:
    """The parts of a line in the order in which they stand on the screen, from the left."""
    if text.isascii() and text.isprintable():
        return (Run(text, ROBOTO),)
    text = "".join(" " if unicodedata.category(c) == "Cc" else c for c in text)
    depths, drawn_by, path = levels(text), [], ""
    for i, character in enumerate(text):
        if unicodedata.category(character) == "Cf" or character in (_AS_TEXT, _AS_EMOJI):
            # Joiners and marks are invisible: only a font that joins letters or emoji is told.
            if path in ("", ROBOTO) or not shapes_text():
                continue
        else:
            path = _font_of(character, path, text[i + 1 : i + 2])
        drawn_by.append((character, path, depths[i]))
    parts = [
        Run("".join(character for character, *_ in group), font, level)
        for (font, level), group in groupby(drawn_by, key=itemgetter(1, 2))
    ]
    return tuple(_as_drawn(run) for run in visual_order(parts, [part.level for part in parts]))


def _as_drawn(run: Run) -> Run:
    """What Pillow's shaping engine does not draw has to be put in the order of the screen."""
    turned = run.level % 2 and _direction(run) is None
    return Run(mirror_run(run.text), run.font, run.level) if turned else run


def missing(text: str) -> bool:
    """Whether some character of `text` is drawn as a box."""
    return any(not run.font for run in runs(text))


def _direction(run: Run) -> str | None:
    """What Pillow is told; only its shaping engine takes a direction."""
    if run.font == ROBOTO or not shapes_text():
        return None
    return "rtl" if run.level % 2 else "ltr"


@cache
def _advance(character: str, bold: bool) -> float:
    return _font(ROBOTO, MEASURED_AT, bold).getlength(character) / MEASURED_AT


def _run_width(run: Run, size: float, bold: bool) -> float:
    if not run.font:
        return len(run.text) * TOFU * size
    if run.font == ROBOTO:  # without kerning: the sum of its characters
        return size * sum([_advance(character, bold) for character in run.text])
    at = EMOJI_SIZE if _is_emoji(run.font) else MEASURED_AT
    return _font(run.font, at, bold).getlength(run.text, direction=_direction(run)) * size / at


def _width(text: str, size: float, bold: bool) -> float:
    return sum(_run_width(run, size, bold) for run in runs(text))


@lru_cache(maxsize=16384)
def _em_width(text: str, bold: bool) -> float:
    return _width(text, 1, bold)


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Width of a line in the unit of `size`."""
    return _em_width(text, bold) * size


@lru_cache(maxsize=16384)
def elide(text: str, size: float, room: float, bold: bool = False) -> str:
    """`text` cut to `room`, with an ellipsis when something is missing."""
    if text_width(text, size, bold) <= room:
        return text
    # Not through the cache: these beginnings of texts are not asked for again.
    too_long = bisect_left(
        range(1, len(text)), True, key=lambda keep: _width(text[:keep].rstrip() + "…", size, bold) > room
    )
    return text[:too_long].rstrip() + "…"


@lru_cache(maxsize=4096)
def draw_line(text: str, size: float, bold: bool) -> tuple[tuple[int, int, Image.Image], ...]:
    """What a line is pasted from: distances from the left and the top in px, and a mask (L) or an emoji (RGBA).

    The baseline lies `ASCENT` font sizes below the top.
    """
    big = round(size * SMOOTH)
    width = int(text_width(text, size, bold)) + 2
    mask = Image.new("L", (width * SMOOTH, round(size * LINE) * SMOOTH), 0)
    pen, left, parts = ImageDraw.Draw(mask), 0.0, []
    for run in runs(text):
        if not run.font:
            _boxes(pen, len(run.text), left, big)
        elif _is_emoji(run.font):
            parts.append((round(left / SMOOTH), round(size * (ASCENT - EMOJI_ASCENT)), _emoji(run.text, size)))
        else:
            _glyphs(pen, run, left, big, bold)
        left += _run_width(run, big, bold)
    mask = mask.reduce(SMOOTH)
    if inked := mask.getbbox():
        parts.append((*inked[:2], mask.crop(inked)))
    return tuple(parts)


def _glyphs(pen: ImageDraw.ImageDraw, run: Run, left: float, size: int, bold: bool) -> None:
    """Fonts of the system have one weight: bold is drawn twice, a little apart."""
    doubled = bold and run.font != ROBOTO
    for shift in (0, size / 22) if doubled else (0,):
        at = (left + shift, size * ASCENT)
        pen.text(at, run.text, 255, _font(run.font, size, bold), anchor="ls", direction=_direction(run))


def _boxes(pen: ImageDraw.ImageDraw, count: int, left: float, size: int) -> None:
    for i in range(count):
        x = left + i * TOFU * size
        box = (x + 0.06 * size, (ASCENT - 0.72) * size, x + (TOFU - 0.06) * size, ASCENT * size)
        pen.rectangle(box, outline=255, width=max(1, size // 18))


@lru_cache(maxsize=512)
def _emoji(text: str, size: float) -> Image.Image:
    font = _font(stack()["emoji"], EMOJI_SIZE)
    left, top, right, bottom = font.getbbox(text)
    image = Image.new("RGBA", (max(1, int(right)), max(1, int(bottom))))
    ImageDraw.Draw(image).text((0, 0), text, font=font, embedded_color=True)
    share = size / EMOJI_SIZE
    return image.resize((max(1, round(image.width * share)), max(1, round(image.height * share))))


@lru_cache(maxsize=16384)
def wrap_text(text: str, width: float, size: float, bold: bool = False) -> tuple[str, ...]:
    """The lines of a text that is `width` wide: broken between words, beside ideographs, and in words too long."""
    lines: list[str] = []
    most = int(5 * width / size) + 2  # more characters than a line can hold
    for paragraph in text.split("\n"):
        line = ""
        for piece in _pieces(paragraph):
            if line and text_width((line + piece[:most]).rstrip(), size, bold) > width:
                lines.append(line.rstrip())
                line = ""
            line += piece
            while len(line) > 1 and (len(line) > most or text_width(line.rstrip(), size, bold) > width):
                fits = _fitting(line[:most], width, size, bold)
                lines.append(line[:fits])
                line = line[fits:]
        lines.append(line.rstrip())
    return tuple(lines)


def _fitting(text: str, width: float, size: float, bold: bool) -> int:
    """How many characters from the beginning of a text too long for a line stand in it, at least one."""
    return max(1, bisect_left(range(1, len(text)), True, key=lambda n: _width(text[:n], size, bold) > width))


def _pieces(paragraph: str) -> Iterator[str]:
    """Words with the spaces behind them; every wide character is a word."""
    start = 0
    for i in range(1, len(paragraph)):
        before, here = paragraph[i - 1], paragraph[i]
        wide = not paragraph.isascii() and "W" in (unicodedata.east_asian_width(c) for c in (before, here))
        if here != " " and (before == " " or (wide and unicodedata.category(here)[0] == "L")):
            yield paragraph[start:i]
            start = i
    yield paragraph[start:]
