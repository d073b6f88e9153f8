"""The size at which a Qwen2.5-VL model sees a screenshot, for coordinates in pixels of the resized image."""

from __future__ import annotations

import math

UNIT = 28
"""Side of an image token in pixels: patches of 14, merged 2 x 2."""
LEAST, MOST = 56 * 56, 12_845_056
"""Minimum and maximum number of pixels in the published `preprocessor_config.json`."""


def qwen_size(width: int, height: int) -> tuple[int, int]:
    """Height and width after the published image processor: multiples of 28 with about the same aspect ratio."""
    sides = [max(UNIT, round(side / UNIT) * UNIT) for side in (height, width)]
    pixels = sides[0] * sides[1]
    if pixels > MOST:
        scale = math.sqrt(width * height / MOST)
        sides = [max(UNIT, math.floor(side / scale / UNIT) * UNIT) for side in (height, width)]
    elif pixels < LEAST:
        scale = math.sqrt(LEAST / (width * height))
        sides = [math.ceil(side * scale / UNIT) * UNIT for side in (height, width)]
    return sides[0], sides[1]
