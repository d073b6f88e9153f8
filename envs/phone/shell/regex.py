"""POSIX regular expressions and file name patterns, translated into Python's `re`."""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache

MAX_PATTERN = 4000
MAX_LINE = 1 << 20
"""Longest pattern and longest searched line in characters: `re` backtracks."""
CLASSES = {
    **{"alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "upper": "A-Z", "lower": "a-z", "blank": " \\t"},
    **{"space": "\\s", "punct": "!-/:-@\\[-`{-~", "xdigit": "0-9A-Fa-f"},
}
_TOKEN = re.compile(
    r"\\(?P<escaped>.)|(?P<set>\[(?P<negation>\^?)(?P<members>\]?(?:\[:[a-z]*:\]|[^]])*)\])|(?P<char>.)", re.DOTALL
)
_MEMBER = re.compile(r"\[:([a-z]*):\]|(.)-(.)|(.)", re.DOTALL)
_ESCAPES = {"n": "\\n", "t": "\\t", "<": r"\b(?=\w)", ">": r"\b(?<=\w)", **{c: f"\\{c}" for c in "bBwWsS123456789"}}
Pattern = re.Pattern[str]


class RegexFault(ValueError):
    """The regular expression is malformed or too long."""


@lru_cache(maxsize=256)
def compiled(source: str, extended: bool = False, fold: bool = False, fixed: bool = False) -> Pattern:
    """A basic or extended regular expression. `RegexFault` for a bad one."""
    if len(source) > MAX_PATTERN:
        raise RegexFault("Regular expression too big")
    try:
        return re.compile(re.escape(source) if fixed else _translated(source, extended), re.IGNORECASE if fold else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise RegexFault(str(error)) from None


def _translated(source: str, extended: bool) -> str:
    def python(token: re.Match[str]) -> str:
        if token["set"]:
            return _set(token["negation"], token["members"])
        before, after = source[: token.start()], source[token.end() :]
        char = token["escaped"] or token["char"]
        if char in "(){}|+?":
            return char if (token["escaped"] is None) == extended else f"\\{char}"
        if token["escaped"]:
            return _ESCAPES.get(char) or re.escape(char)
        if char == "$":
            return "\\Z" if extended or not after or after.startswith(("\\)", "\\|")) else "\\$"
        if char in "^*" and not extended:  # an anchor at the start of an expression, a quantifier elsewhere
            first = before == "" or before.endswith(("\\(", "\\|", "^"))
            return char if first == (char == "^") else f"\\{char}"
        if char == "[":
            raise RegexFault("Unmatched [")
        return char if char in "^*." else re.escape(char)

    return _TOKEN.sub(python, source)


def _set(negation: str, members: str) -> str:
    """A bracket expression."""

    def member(found: re.Match[str]) -> str:
        if found[1] is not None:
            return CLASSES.get(found[1], "")
        return f"{re.escape(found[2])}-{re.escape(found[3])}" if found[2] else re.escape(found[4])

    return f"[{negation}{_MEMBER.sub(member, members)}]"


# --- file name patterns ------------------------------------------------------------------------------------------


def _glob_source(pattern: str) -> str:
    """A file name pattern for `re`. Only its last star backtracks, so matching takes linear time."""
    if len(pattern) > MAX_PATTERN:
        raise RegexFault("pattern too long")
    return fnmatch.translate(pattern).removesuffix("\\Z")


@lru_cache(maxsize=256)
def glob(pattern: str, fold: bool = False) -> Pattern:
    """A file name pattern, for `fullmatch`. A special character between brackets is an ordinary one."""
    return re.compile(_glob_source(pattern), re.IGNORECASE if fold else 0)


@lru_cache(maxsize=256)
def _trimmer(op: str, pattern: str) -> Pattern:
    source = _glob_source(pattern)
    if op == "#":  # the last star matches as little as possible
        before, star, after = source.rpartition(".*")
        source = f"{before}{star}{'?' if star and after[:1] != '?' else ''}{after}"
    rest = "(?P<rest>.*)" if op in ("#", "##", "%") else "(?P<rest>.*?)"
    return re.compile(source + rest if op[0] == "#" else rest + source, re.DOTALL)


def trimmed(value: str, op: str, pattern: str) -> str:
    """`${value#pattern}`: without the shortest (`#`, `%`) or longest (`##`, `%%`) match at the start or the end."""
    found = _trimmer(op, pattern).fullmatch(value)
    return found["rest"] if found else value
