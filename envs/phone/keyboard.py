"""The on-screen keyboard: where its keys are, for the drawing and for the finger."""

from __future__ import annotations

from dataclasses import dataclass

from mobilerl.envs.phone.ui import KEYBOARD, NAV_BAR, SCREEN_DP, keyboard_height

ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
MARGIN, ROW_PITCH, KEY_PITCH = 3, 52, 35.4
SHIFT, DELETE, ENTER, SYMBOLS = "shift", "delete", "enter", "?123"


@dataclass(frozen=True, slots=True)
class Key:
    """`name` is the character it types, or what it does. `box` in dp from the keyboard's top left corner."""

    name: str
    box: tuple[float, float, float, float]


def _layout() -> tuple[Key, ...]:
    keys = []
    for i, row in enumerate(ROWS):
        left, top = (SCREEN_DP - len(row) * KEY_PITCH) / 2, 8 + i * ROW_PITCH
        keys += [
            Key(c, (left + j * KEY_PITCH, top, left + (j + 1) * KEY_PITCH, top + ROW_PITCH)) for j, c in enumerate(row)
        ]
    bottom = 8 + 2 * ROW_PITCH
    keys += [
        Key(SHIFT, (MARGIN, bottom, 54, bottom + ROW_PITCH)),
        Key(DELETE, (SCREEN_DP - 54, bottom, SCREEN_DP - MARGIN, bottom + ROW_PITCH)),
    ]
    edges = (MARGIN, 56, 92, 268, 304, SCREEN_DP - MARGIN)
    names = (SYMBOLS, ",", " ", ".", ENTER)
    top = bottom + ROW_PITCH
    keys += [Key(n, (edges[i], top, edges[i + 1], top + ROW_PITCH)) for i, n in enumerate(names)]
    return tuple(keys)


KEYS = _layout()


def key_at(x: float, y: float, height: float, width: float = SCREEN_DP) -> str:
    """Name of the key at (x, y) dp of a screen of `width` by `height` dp; "" between the keys."""
    x, y = x * SCREEN_DP / width, (y - keyboard_top(height)) * KEYBOARD / keyboard_height(height)
    return next((k.name for k in KEYS if k.box[0] <= x < k.box[2] and k.box[1] <= y < k.box[3]), "")


def keyboard_top(height: float) -> float:
    return height - NAV_BAR - keyboard_height(height)
