"""The order of a line that mixes directions: Unicode's bidirectional algorithm without explicit embeddings.

Pillow orders the characters of one font and direction; what is left is the order of those runs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
_RIGHT = ("R", "AL")
_NUMBER = ("EN", "AN")
_MIRRORED = str.maketrans("()[]{}<>«»‹›", ")(][}{><»«›‹")
_IN_NUMBER = ("ES", "CS", "ET")


def levels(text: str) -> list[int]:
    """The embedding level of every character: even from left to right, odd from right to left.

    The line's own direction is that of its first letter.
    """
    kinds = [unicodedata.bidirectional(c) for c in text]
    if not any(kind in _RIGHT for kind in kinds):
        return [0] * len(text)
    base = int(next(kind for kind in kinds if kind in ("L", *_RIGHT)) != "L")
    found: list[int | None] = []
    last = base  # the direction of the last letter: 0 or 1
    for i, kind in enumerate(kinds):
        if kind == "L":
            last = 0
            found.append(2 * base)
        elif kind in _RIGHT:
            last = 1
            found.append(1)
        elif kind in _NUMBER or (kind in _IN_NUMBER and _inside_number(kinds, i)):
            found.append(2 if last or base else 0)
        elif kind in ("NSM", "BN") and found:
            found.append(found[-1])
        else:
            found.append(None)
    return _neutrals(found, base)


def _inside_number(kinds: Sequence[str], i: int) -> bool:
    return 0 < i < len(kinds) - 1 and kinds[i - 1] in _NUMBER and kinds[i + 1] in _NUMBER


def _neutrals(found: list[int | None], base: int) -> list[int]:
    """Spaces and punctuation between equal levels take theirs, others that of the line."""
    following, after = [], base
    for level in reversed(found):
        after = after if level is None else level
        following.append(after)
    whole: list[int] = []
    for level, after in zip(found, reversed(following), strict=True):
        if level is None:
            before = whole[-1] if whole else base
            # A number that is embedded counts as part of the text from right to left around it.
            level = before if before == after else 1 if base == 0 and before and after else base
        whole.append(level)
    return whole


def visual_order(parts: Sequence[T], depths: Sequence[int]) -> list[T]:
    """`parts` from the left to the right; `depths` are their levels."""
    ordered = list(zip(parts, depths, strict=True))
    for depth in range(max(depths, default=0), 0, -1):
        start = 0
        while start < len(ordered):
            end = start
            while end < len(ordered) and ordered[end][1] >= depth:
                end += 1
            ordered[start:end] = reversed(ordered[start:end])
            start = end + 1
    return [part for part, _ in ordered]


def mirror_run(text: str) -> str:
    """A run from right to left as it reads from the left."""
    return text[::-1].translate(_MIRRORED)
