"""Icons as simple shapes on a 24 x 24 grid, drawn once per size and kept as masks.

A shape is a letter and numbers: `l` a line through points, `f` a filled polygon, `o` a ring (center, radius), `d` a
disc, `r` an outlined and `b` a filled rounded box (corners, radius), `a` an arc (box, start and end in degrees,
clockwise from three o'clock), `w` a filled sector; `x` and one of these letters cuts the shape out.
"""

from __future__ import annotations

from functools import lru_cache

from PIL import Image, ImageDraw

from mobilerl.envs.phone.goods import GOODS

GRID = 24
SMOOTH = 4
STROKE = 2.0


_GEAR = (
    "d 12 12 7;b 10.3 2 13.7 22 1;b 2 10.3 22 13.7 1;f 6.2 3.8 8.6 3.2 20.2 17.8 17.8 20.2;"
    "f 17.8 3.8 20.2 6.2 6.2 20.2 3.8 17.8;xd 12 12 3.2"
)
_STAR = "12 2.5 14.8 9 21.8 9.6 16.5 14.2 18.1 21 12 17.3 5.9 21 7.5 14.2 2.2 9.6 9.2 9"
_HEART = "d 7.6 8.6 4.6;d 16.4 8.6 4.6;f 3.6 11 20.4 11 12 20.5;b 6 8 18 12 0"

SHAPES: dict[str, str] = {
    "airplane": "b 10.7 2 13.3 22 1.3;f 12 8 22 14 22 16.4 12 13;f 12 8 2 14 2 16.4 12 13;"
    "f 12 17.5 16 20.5 16 22 12 21;f 12 17.5 8 20.5 8 22 12 21",
    "alarm": "o 12 13 8;l 12 8.5 12 13 15 15;l 3 6 7 2.8;l 21 6 17 2.8",
    "back": "l 20 12 5 12;l 11.5 5 4.8 12 11.5 19",
    "bag": "b 4 8 20 21.5 2;a 8 2.5 16 12 180 360;xl 9 11.5 9 11.6;xl 15 11.5 15 11.6",
    "battery": "b 7 4 17 22 1.5;b 10 2 14 5 0.5",
    "bell": "w 6 4 18 16 180 360;b 6 10 18 16 0;f 4 18 20 18 18 15 6 15;d 12 19.8 2.2;d 12 4 1.6",
    "bluetooth": "l 7 7 16.5 16.5 12 21 12 3 16.5 7.5 7 17",
    "book": "r 5 3 19 21 2;l 9 3 9 21;l 12.5 8 16 8",
    "calculator": "r 4 2.5 20 21.5 2;l 8 7.5 16 7.5;d 8.5 12.5 1.3;d 12 12.5 1.3;d 15.5 12.5 1.3;d 8.5 17 1.3;"
    "d 12 17 1.3;d 15.5 17 1.3",
    "calendar": "r 3.5 4.5 20.5 21 2;b 3.5 4.5 20.5 10 2;l 8 2.8 8 5;l 16 2.8 16 5;b 13 13.5 17 17.5 0.5",
    "car": "b 3 11 21 18 2;f 6.5 5 17.5 5 20 12 4 12;xf 7.8 7 16.2 7 17.6 11 6.4 11;b 4.5 17 7.5 20.5 1;"
    "b 16.5 17 19.5 20.5 1;xd 7 14.5 1.3;xd 17 14.5 1.3",
    "cart": "l 2 4 5 4 8.2 15 18.4 15 21 7 6.2 7;d 9 19.6 1.9;d 17.4 19.6 1.9",
    "check": "l 4.5 12.5 9.8 17.8 20 6.8",
    "clock": "o 12 12 9.5;l 12 6.8 12 12 15.8 14.2",
    "close": "l 5.5 5.5 18.5 18.5;l 18.5 5.5 5.5 18.5",
    "contrast": "o 12 12 9.5;w 3.5 3.5 20.5 20.5 270 90",
    "cup": "b 4 4 17 16 3;a 13.5 5.5 21 12.5 270 90;l 4 20 18 20",
    "directions": "f 12 1.5 22.5 12 12 22.5 1.5 12;xl 9 15.5 9 11.5 15 11.5;xl 12.8 8.8 15.5 11.5 12.8 14.2",
    "divide": "l 5 12 19 12;d 12 6.5 1.8;d 12 17.5 1.8",
    "do_not_disturb": "d 12 12 9.5;xb 6.5 10.7 17.5 13.3 1",
    "document": "f 5 2 14.5 2 19.5 7 19.5 22 5 22;xl 8.5 12 16 12;xl 8.5 16 16 16;xf 13.5 3.2 18.3 8 13.5 8",
    "edit": "f 3.5 20.5 3.5 16.2 14.3 5.4 18.6 9.7 7.8 20.5;f 15.6 4.1 17.7 2.2 21.8 6.3 19.9 8.4",
    "equals": "l 5 9 19 9;l 5 15 19 15",
    "erase": "f 8.5 4.5 22 4.5 22 19.5 8.5 19.5 2 12;xl 11.5 9 17.5 15;xl 17.5 9 11.5 15",
    "filter": "l 3 6.5 21 6.5;l 6.5 12 17.5 12;l 10 17.5 14 17.5",
    "folder": "b 2.5 6 21.5 20 2;b 2.5 3.8 11 10 2",
    "game": "b 2 7 22 18 5.5;xl 7.5 10 7.5 15;xl 5 12.5 10 12.5;xd 17.5 11 1.2;xd 15.5 14 1.2",
    "gear": _GEAR,
    "globe": "o 12 12 9.5;r 8 2.5 16 21.5 4;l 3 9 21 9;l 3 15 21 15",
    "heart": _HEART + ";xd 8 9 2.6;xd 16 9 2.6;xf 6 10.4 18 10.4 12 17.4",
    "heart_filled": _HEART,
    "home": "f 12 2.5 22.5 12 19.5 12 19.5 21 4.5 21 4.5 12 1.5 12;xb 10 14 14 21.5 0",
    "image": "b 3 3.5 21 20.5 2;xf 5.5 17.8 9.5 12.5 12 15.5 15 11 18.8 17.8;xd 8.5 8.5 1.7",
    "info": "o 12 12 9.5;l 12 11 12 16.5;d 12 7.6 1.3",
    "left": "l 15.5 5 8.5 12 15.5 19",
    "list": "d 4.5 6 1.5;d 4.5 12 1.5;d 4.5 18 1.5;l 9 6 20.5 6;l 9 12 20.5 12;l 9 18 20.5 18",
    "lock": "b 4.5 10 19.5 21.5 2;a 7.5 2.5 16.5 12.5 180 360;l 8.5 7.5 8.5 11;l 15.5 7.5 15.5 11;xd 12 15.8 2",
    "mail": "b 2.5 5 21.5 19.5 2;xl 4.5 8 12 13.2 19.5 8",
    "map": "f 2.5 5 8.5 3 8.5 19.5 2.5 21.5;f 9.5 3 14.5 5 14.5 21.5 9.5 19.5;f 15.5 5 21.5 3 21.5 19.5 15.5 21.5",
    "message": "b 2.5 3.5 21.5 17.5 2;f 2.5 13 2.5 22 8 16.5;xl 7 8.3 17 8.3;xl 7 12.6 14 12.6",
    "minus": "l 5 12 19 12",
    "moon": "d 11.5 12.5 9;xd 16.5 8.5 7.6",
    "more": "d 12 5 2;d 12 12 2;d 12 19 2",
    "music": "l 9.5 17.5 9.5 5 19 3.2 19 15.5;d 7 17.8 3.2;d 16.5 15.8 3.2",
    "next": "f 4.5 4.5 15.5 12 4.5 19.5;b 16.5 4.5 19.5 19.5 0.8",
    "note": "f 4 3 20 3 20 15 14.5 21 4 21;xl 7.5 8 16.5 8;xl 7.5 12.3 16.5 12.3;xl 7.5 16.6 11.5 16.6",
    "pause": "b 6 4.5 10.2 19.5 1;b 13.8 4.5 18 19.5 1",
    "people": "d 8.5 8 4;w 1.5 13.5 15.5 27 180 360;d 16.5 9 3.2;w 11 14.5 22.5 25.5 180 360",
    "percent": "l 18.5 5 5.5 19;o 7 7.2 3;o 17 16.8 3",
    "person": "d 12 7.8 4.6;w 3 13.8 21 30 180 360;xb 0 22 24 24 0",
    "phone": "f 3.5 4.5 8 3 10 8.5 7.6 10.6 13.4 16.4 15.5 14 21 16 19.5 20.5 17 21.3 9 17 4.6 10.6 2.8 6.5",
    "pin": "f 8 3 16 3 16 5 15 5.5 15 11 18 14 18 15.8 6 15.8 6 14 9 11 9 5.5 8 5;l 12 15 12 21.5",
    "place": "d 12 9 7;f 5.6 11.7 18.4 11.7 12 22.5;xd 12 9 2.7",
    "play": "f 6.5 3.8 20 12 6.5 20.2",
    "playlist_add": "l 3 6 15 6;l 3 11 15 11;l 3 16 10 16;l 17 12 17 21;l 12.5 16.5 21.5 16.5",
    "plus": "l 12 5 12 19;l 5 12 19 12",
    "previous": "f 19.5 4.5 8.5 12 19.5 19.5;b 4.5 4.5 7.5 19.5 0.8",
    "right": "l 8.5 5 15.5 12 8.5 19",
    "rotate": "r 8.2 6 15.8 18 1.6;a 1.5 1.5 22.5 22.5 190 255;a 1.5 1.5 22.5 22.5 10 75;"
    "f 8 0.2 13.2 1.8 8.6 5;f 16 23.8 10.8 22.2 15.4 19",
    "search": "o 10 10 6.8;l 15 15 20.5 20.5",
    "send": "f 2.5 3.5 22 12 2.5 20.5 2.5 14 13.5 12 2.5 10",
    "shift": "f 12 4 20.5 13 16 13 16 19.5 8 19.5 8 13 3.5 13",
    "shuffle": "l 3.5 17.5 7 17.5 16 6.5 20 6.5;l 3.5 6.5 7 6.5 16 17.5 20 17.5;l 17.5 4 20.2 6.5 17.5 9;"
    "l 17.5 15 20.2 17.5 17.5 20",
    "sort": "l 3 6.5 20 6.5;l 3 12 15 12;l 3 17.5 9.5 17.5",
    "star": f"f {_STAR};xf 12 7.3 13.5 10.7 17 11 14.2 13.5 15.1 17 12 15.1 8.9 17 9.8 13.5 7 11 10.5 10.7",
    "star_filled": f"f {_STAR}",
    "stop": "b 5.5 5.5 18.5 18.5 1.5",
    "stopwatch": "o 12 13.5 8;l 12 9 12 13.5;l 9.5 2.5 14.5 2.5;l 18 6.5 19.5 5",
    "sun": "d 12 12 4.6;l 12 2 12 4;l 12 20 12 22;l 2 12 4 12;l 20 12 22 12;l 5 5 6.3 6.3;l 17.7 17.7 19 19;"
    "l 5 19 6.3 17.7;l 17.7 6.3 19 5",
    "sync": "a 4 4 20 20 200 340;a 4 4 20 20 20 160;f 21.5 4.5 21.5 11 15.5 9;f 2.5 19.5 2.5 13 8.5 15",
    "tasks": "r 3.5 3.5 20.5 20.5 2;l 7.5 12.2 10.8 15.5 16.8 8.8",
    "timer": "l 6 2.5 18 2.5;l 6 21.5 18 21.5;f 7 3 17 3 17 6.5 12 12 7 6.5;f 7 21 17 21 17 17.5 12 12 7 17.5",
    "times": "l 6.5 6.5 17.5 17.5;l 17.5 6.5 6.5 17.5",
    "trash": "b 5.5 7.5 18.5 21.5 2;b 4 4 20 6.2 0.5;b 9 2.5 15 5 0.5;xl 10 11 10 18;xl 14 11 14 18",
    "volume": "f 3 9 7 9 12.5 4 12.5 20 7 15 3 15;a 9 6.5 19.5 17.5 300 60",
    "bike": "o 5.8 16 4.2;o 18.2 16 4.2;l 5.8 16 9.5 9.5 15.5 9.5 11.5 16 5.8 16;l 11.5 16 9 8;l 18.2 16 14.8 7 17 7",
    "wifi": "w 0 5 24 29 225 315;xw 4.2 9.2 19.8 24.8 225 315;w 6 11 18 23 225 315;xw 9 14 15 20 225 315;d 12 18 1.9",
    "wifi_full": "w -1 4 25 32 228 312",
    **GOODS,
}


@lru_cache(maxsize=512)
def icon_mask(name: str, size: int, turned_over: bool = False) -> Image.Image:
    """The icon as a `size` x `size` px coverage mask (mode L). `name` is one of `SHAPES`."""
    pixels = size * SMOOTH
    image = Image.new("L", (pixels, pixels), 0)
    pen = ImageDraw.Draw(image)
    for shape in SHAPES[name].split(";"):
        letters, *numbers = shape.split()
        ink = 0 if letters[0] == "x" else 255
        _shape(pen, letters[-1], [float(n) * pixels / GRID for n in numbers], ink, pixels / GRID)
    mask = image.reduce(SMOOTH)
    return mask.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if turned_over else mask


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
