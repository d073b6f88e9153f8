"""POSIX regular expressions and file name patterns, translated into Python's `re`."""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache

from mobilerl.envs.phone.shell.command import Failure

MAX_PATTERN = 4000
MAX_LINE = 1 << 20
"""Maximum characters of a pattern and of a searched line, because `re` backtracks."""
_CLASSES = {
    **{"alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "upper": "A-Z", "lower": "a-z", "blank": " \\t"},
    **{"space": "\\s", "punct": "!-/:-@\\[-`{-~", "xdigit": "0-9A-Fa-f"},
}
_CLASS = re.compile(r"\[:([a-z]+):\]")
_SET_OR_OPERATOR = re.compile(r"(\[\^?\]?[^]]*\])|\\?([(){}|+?])", re.DOTALL)
Pattern = re.Pattern[str]


@lru_cache(maxsize=256)
def compile_patterns(
    sources: tuple[str, ...],
    extended: bool = False,
    fold: bool = False,
    fixed: bool = False,
    word: bool = False,
    line: bool = False,
) -> Pattern:
    """Compiles alternatives that are basic or extended regular expressions, or with `fixed` plain texts.

    `fold` ignores case; a match must be a whole `word` or the whole `line`. Raises `Failure` for an invalid expression.
    """
    if sum(map(len, sources)) > MAX_PATTERN:
        raise Failure("Regular expression too big", 2)
    python = [re.escape(source) if fixed else _translate(source, extended) for source in sources]
    # Each alone first, since a part of an expression may complete another one.
    try:
        parts = [re.compile(part).pattern for part in python]
        joined = parts[0] if len(parts) == 1 else "|".join(f"(?:{part})" for part in parts) or "(?!)"
        joined = rf"\b(?:{joined})\b" if word else joined
        return re.compile(rf"\A(?:{joined})\Z" if line else joined, re.IGNORECASE if fold else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise Failure(f"bad REGEX: {error}", 2) from None


def _translate(source: str, extended: bool) -> str:
    """Python uses the extended syntax. In the basic one, operators need a backslash and plain characters do not."""

    def swap(found: re.Match[str]) -> str:
        return found[1] or (found[2] if found[0][0] == "\\" else f"\\{found[2]}")

    source = _CLASS.sub(lambda found: _CLASSES.get(found[1], ""), source)
    return source if extended else _SET_OR_OPERATOR.sub(swap, source)


@lru_cache(maxsize=256)
def glob(pattern: str) -> Pattern:
    """Compiles a file name pattern for `fullmatch`. Special characters in brackets are literal.

    Only the last star backtracks, so matching takes linear time.
    """
    if len(pattern) > MAX_PATTERN:
        raise Failure("pattern too long")
    return re.compile(fnmatch.translate(pattern))
