"""Which actions of an action space an explorer plays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sft.pages.actions import COMPLETE, PageAction

PROBE = "a"
"""A text that finds something in most search fields."""


def worth_trying(space: Sequence[PageAction], most: int, words: Iterable[str]) -> list[PageAction]:
    """Inputs first, scrolls last, `complete` never; of elements of one size only `most`; inputs with two texts each.

    The texts are one of `words`, which the app shows and a search may find, and `PROBE`.
    """
    alike: dict[tuple[object, ...], list[PageAction]] = {}
    for action in space:
        if action != COMPLETE:
            x1, y1, x2, y2 = action.box or (0, 0, 0, 0)
            alike.setdefault((action.kind, action.direction, x2 - x1, y2 - y1), []).append(action)
    chosen = {action for group in alike.values() for action in spread(group, most)}
    actions = [a for a in space if a in chosen]
    inputs = [replace(a, text=text) for a in actions if a.kind == "input" for text in _texts(a, words)]
    others = [a for a in actions if a.kind not in ("input", "scroll")]
    return inputs + others + [a for a in actions if a.kind == "scroll"]


def _texts(action: PageAction, words: Iterable[str]) -> tuple[str, ...]:
    """The word is chosen by the field, so that it is the same every time."""
    known = sorted({w for w in words if w and w != action.name})
    digest = hashlib.sha256(f"{action.name}/{action.box}".encode()).digest()
    return (known[digest[0] % len(known)], PROBE) if known else (PROBE,)


def spread(actions: list[PageAction], most: int) -> list[PageAction]:
    """At most `most` of them, at even distances, the first and the last among them."""
    if len(actions) <= most:
        return actions
    if most == 1:
        return actions[:1]
    return [actions[i * (len(actions) - 1) // (most - 1)] for i in range(most)]
