"""Icons as simple shapes on a 24 x 24 grid, drawn once per size and kept as masks.

A shape is a letter and numbers: `l` a line through points, `f` a filled polygon, `o` a ring (centre, radius), `d` a
disc, `r` an outlined and `b` a filled rounded box (corners, radius), `a` an arc (box, start and end in degrees,
clockwise from three o'clock), `w` a filled sector; `x` and one of these letters cuts the shape out.
"""

from __future__ import annotations

from functools import lru_cache

from PIL import Image, ImageDraw

from envs.phone.icon_shapes import ALIASES, SHAPES

GRID = 24
SMOOTH = 4
STROKE = 2.0


def known(name: str) -> bool:
    return ALIASES.get(name, name) in SHAPES


@lru_cache(maxsize=512)
def icon_mask(name: str, size: int) -> Image.Image:
    """The icon as a `size` x `size` px coverage mask (mode L). `name` must be `known`."""
    pixels = size * SMOOTH
    image = Image.new("L", (pixels, pixels), 0)
    pen = ImageDraw.Draw(image)
    for shape in SHAPES[ALIASES.get(name, name)].split(";"):
        letters, *numbers = shape.split()
        ink = 0 if letters[0] == "x" else 255
        _shape(pen, letters[-1], [float(n) * pixels / GRID for n in numbers], ink, pixels / GRID)
    return image.reduce(SMOOTH)


def _shape(pen: ImageDraw.ImageDraw, letter: str, at: list[float], ink: int, unit: float) -> None:
    stroke = round(STROKE * unit)
    if letter == "l":
        pen.line(at, fill=ink, width=stroke, joint="curve")
        for x, y in (at[:2], at[-2:]):
            pen.ellipse((x - stroke / 2, y - stroke / 2, x + stroke / 2, y + stroke / 2), fill=ink)
    elif letter == "f":
        pen.polygon(at, fill=ink)
    elif letter in "od":
        x, y, r = at
        box = (x - r, y - r, x + r, y + r)
        pen.ellipse(box, fill=ink if letter == "d" else None, outline=ink, width=stroke)
    elif letter in "rb":
        pen.rounded_rectangle(at[:4], radius=at[4], fill=ink if letter == "b" else None, outline=ink, width=stroke)
    else:  # angles were scaled with the coordinates
        start, end = at[4] / unit, at[5] / unit
        if letter == "a":
            pen.arc(at[:4], start, end, fill=ink, width=stroke)
        else:
            pen.pieslice(at[:4], start, end, fill=ink)
