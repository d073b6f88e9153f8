"""POSIX regular expressions and file name patterns, translated into Python's `re`."""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache

MAX_PATTERN = 4000
MAX_LINE = 1 << 20
"""Longest pattern and longest searched line in characters: `re` backtracks."""
_CLASSES = {
    **{"alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "upper": "A-Z", "lower": "a-z", "blank": " \\t"},
    **{"space": "\\s", "punct": "!-/:-@\\[-`{-~", "xdigit": "0-9A-Fa-f"},
}
_TOKEN = re.compile(
    r"\\(?P<escaped>.)|(?P<set>\[(?P<negation>\^?)(?P<members>\]?(?:\[:[a-z]*:\]|[^]])*)\])|(?P<char>.)", re.DOTALL
)
_MEMBER = re.compile(r"\[:([a-z]*):\]|(.)-(.)|(.)", re.DOTALL)
Pattern = re.Pattern[str]


class RegexFault(ValueError):
    """The regular expression is malformed or too long."""


@lru_cache(maxsize=256)
def compiled(
    source: str, extended: bool = False, fold: bool = False, fixed: bool = False, word: bool = False
) -> Pattern:
    """A basic or extended regular expression, case-blind with `fold`. `RegexFault` for a bad one."""
    if len(source) > MAX_PATTERN:
        raise RegexFault("Regular expression too big")
    try:
        python = re.escape(source) if fixed else _translated(source, extended)
        return re.compile(rf"\b(?:{python})\b" if word else python, re.IGNORECASE if fold else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise RegexFault(str(error)) from None


def _translated(source: str, extended: bool) -> str:
    def python(token: re.Match[str]) -> str:
        if token["set"]:
            return f"[{token['negation']}{_MEMBER.sub(_member, token['members'])}]"
        before, after = source[: token.start()], source[token.end() :]
        char = token["escaped"] or token["char"]
        if char in "(){}|+?":
            return char if (token["escaped"] is None) == extended else f"\\{char}"
        if token["escaped"]:
            return f"\\{char}" if char in "bBwWsS123456789" else re.escape(char)
        if char == "$":
            return "\\Z" if extended or not after or after.startswith(("\\)", "\\|")) else "\\$"
        if char in "^*" and not extended:  # an anchor at the start of an expression, a quantifier elsewhere
            first = before == "" or before.endswith(("\\(", "\\|", "^"))
            return char if first == (char == "^") else f"\\{char}"
        if char == "[":
            raise RegexFault("Unmatched [")
        return char if char in "^*." else re.escape(char)

    return _TOKEN.sub(python, source)


def _member(found: re.Match[str]) -> str:
    """A class, a range or a character of a bracket expression."""
    if found[1] is not None:
        return _CLASSES.get(found[1], "")
    return f"{re.escape(found[2])}-{re.escape(found[3])}" if found[2] else re.escape(found[4])


@lru_cache(maxsize=256)
def glob(pattern: str) -> Pattern:
    """A file name pattern, for `fullmatch`. A special character between brackets is an ordinary one.

    Only its last star backtracks, so matching takes linear time.
    """
    if len(pattern) > MAX_PATTERN:
        raise RegexFault("pattern too long")
    return re.compile(fnmatch.translate(pattern))
