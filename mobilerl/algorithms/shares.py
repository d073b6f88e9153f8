"""Rounding of fractions, without torch."""

from __future__ import annotations

import math


def share_of(n: int, top_p: float) -> int:
    """Number of items in the fraction `top_p`, in (0, 1], of `n`: ceil(top_p * n), and at least 1."""
    return max(1, math.ceil(top_p * n - 1e-9))  # 0.28 * 25 is 7.000000000000001: 7 things
