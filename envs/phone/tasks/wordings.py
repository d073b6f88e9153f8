"""Wordings of goals in a compact notation."""

from __future__ import annotations

import re
from itertools import product

_CHOICE = re.compile(r"\[([^\]]*)\]")


def expand(pattern: str) -> list[str]:
    """All wordings of a pattern, whose brackets hold alternatives, the first of each bracket first.

    >>> expand("[Delete|Remove] the note {title}[ in Notes|]")[:3]
    ['Delete the note {title} in Notes', 'Delete the note {title}', 'Remove the note {title} in Notes']
    """
    fixed_and_choices = _CHOICE.split(pattern)
    parts = [part.split("|") if i % 2 else [part] for i, part in enumerate(fixed_and_choices)]
    return ["".join(chosen) for chosen in product(*parts)]
