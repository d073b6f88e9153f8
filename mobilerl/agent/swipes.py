"""Swipes by direction and distance, as replies tell them, and by where the finger goes, as the phone plays them."""

from __future__ import annotations

from itertools import product
from typing import Literal

from envs.base import COORD_MAX, Swipe

Direction = Literal["up", "down", "left", "right"]
Distance = Literal["short", "medium", "long"]

DISTANCES: dict[str, int] = {"short": 1, "medium": 2, "long": 10}
"""How many units of a tenth of the screen's width a swipe is made of."""

OFFSETS: dict[str, tuple[float, float]] = {"up": (0, -2), "down": (0, 2), "left": (-2.5, 0), "right": (2.5, 0)}
"""What the finger moves per unit, in units of a tenth of the screen's width."""

MIDDLE = COORD_MAX // 2
"""Of the screen, in 0-999: where a swipe without an element starts."""


def swipe_from(x: int, y: int, direction: Direction, distance: Distance, width: int, height: int) -> Swipe:
    """MobileRL's swipe: the finger goes down at (x, y) in 0-999 and moves in `direction`, at most to the edge.

    With unit = int(width / 10) px, x10 (long), x2 (medium) or x1 (short), it moves 2 units up or down, or 2.5 units
    sideways. `width` and `height` are the screen's, in px.
    """
    length = width // 10 * DISTANCES[distance]
    dx, dy = OFFSETS[direction]
    x2 = x + round(dx * length * COORD_MAX / width)
    y2 = y + round(dy * length * COORD_MAX / height)
    return Swipe(x, y, min(max(x2, 0), COORD_MAX), min(max(y2, 0), COORD_MAX))


def nearest_swipe(swipe: Swipe, width: int, height: int) -> tuple[Direction, Distance]:
    """Direction and distance of the swipe from the same start that ends nearest to where this one ends."""

    def miss(choice: tuple[str, str]) -> float:
        other = swipe_from(swipe.x, swipe.y, *choice, width, height)
        return ((other.x2 - swipe.x2) * width) ** 2 + ((other.y2 - swipe.y2) * height) ** 2

    return min(product(OFFSETS, DISTANCES), key=miss)
