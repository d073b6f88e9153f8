"""Colors of the light and the dark theme, and how an app's own color becomes an accent that can be read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from PIL import ImageColor

RGB = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Theme:
    surface: RGB
    text: RGB
    subtext: RGB
    outline: RGB
    divider: RGB
    dialog: RGB
    keyboard: RGB
    key: RGB
    dark: bool


WHITE: RGB = (255, 255, 255)
DEFAULT_COLOR = "#1A73E8"


@lru_cache(maxsize=256)
def rgb(color: str) -> RGB:
    """A CSS color; the default accent for "" or what is no color."""
    try:
        return ImageColor.getrgb(color or DEFAULT_COLOR)[:3]
    except ValueError:
        return ImageColor.getrgb(DEFAULT_COLOR)[:3]


def mix(a: RGB, b: RGB, share: float) -> RGB:
    """`share` of b in a."""
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


def brightness(color: RGB) -> float:
    """Perceived brightness, 0 to 1."""
    return (0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2]) / 255


@lru_cache(maxsize=256)
def accent(color: str, dark: bool) -> RGB:
    """The app's color, darkened until white text on it can be read (lightened on a dark screen)."""
    value = rgb(color)
    if dark:
        return mix(value, WHITE, 0.35)
    while brightness(value) > 0.52:
        value = mix(value, (0, 0, 0), 0.08)
    return value


@lru_cache(maxsize=256)
def bar_color(color: str, theme: Theme) -> RGB:
    """Background of the title bar: a breath of the app's color."""
    return mix(theme.surface, rgb(color), 0.12)


_COLORS = ("surface", "text", "subtext", "outline", "divider", "dialog", "keyboard", "key")


def _theme(colors: str, dark: bool) -> Theme:
    named: dict[str, RGB] = dict(zip(_COLORS, map(rgb, colors.split()), strict=True))
    return Theme(**named, dark=dark)


LIGHT = _theme("#FFFFFF #202124 #5F6368 #BDC1C6 #E8EAED #FFFFFF #E2E5EA #FFFFFF", dark=False)
DARK = _theme("#191A1C #E8EAED #9AA0A6 #5F6368 #34363A #2D2E31 #26282B #3E4044", dark=True)
