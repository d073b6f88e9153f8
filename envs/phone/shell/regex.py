"""POSIX regular expressions and file name patterns, translated into Python's `re`."""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache

from envs.phone.shell.command import Failure

MAX_PATTERN = 4000
MAX_LINE = 1 << 20
"""Longest pattern and longest searched line in characters: `re` backtracks."""
_CLASSES = {
    **{"alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "upper": "A-Z", "lower": "a-z", "blank": " \\t"},
    **{"space": "\\s", "punct": "!-/:-@\\[-`{-~", "xdigit": "0-9A-Fa-f"},
}
_CLASS = re.compile(r"\[:([a-z]+):\]")
_SET_OR_OPERATOR = re.compile(r"(\[\^?\]?[^]]*\])|\\?([(){}|+?])", re.DOTALL)
Pattern = re.Pattern[str]


@lru_cache(maxsize=256)
def compiled(
    source: str, extended: bool = False, fold: bool = False, fixed: bool = False, word: bool = False
) -> Pattern:
    """A basic or extended regular expression, case-blind with `fold`. `Failure` for a bad one."""
    if len(source) > MAX_PATTERN:
        raise Failure("Regular expression too big", 2)
    try:
        python = re.escape(source) if fixed else _translated(source, extended)
        return re.compile(rf"\b(?:{python})\b" if word else python, re.IGNORECASE if fold else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise Failure(f"bad REGEX: {error}", 2) from None


def _translated(source: str, extended: bool) -> str:
    """Python writes extended expressions; in basic ones an operator has a backslash, and a plain character none."""

    def swapped(found: re.Match[str]) -> str:
        return found[1] or (found[2] if found[0][0] == "\\" else f"\\{found[2]}")

    source = _CLASS.sub(lambda found: _CLASSES.get(found[1], ""), source)
    return source if extended else _SET_OR_OPERATOR.sub(swapped, source)


@lru_cache(maxsize=256)
def glob(pattern: str) -> Pattern:
    """A file name pattern, for `fullmatch`. A special character between brackets is an ordinary one.

    Only its last star backtracks, so matching takes linear time.
    """
    if len(pattern) > MAX_PATTERN:
        raise Failure("pattern too long")
    return re.compile(fnmatch.translate(pattern))
