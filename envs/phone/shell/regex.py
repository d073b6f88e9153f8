"""POSIX regular expressions and file name patterns, translated into Python's `re`."""

from __future__ import annotations

import re
from functools import lru_cache

MAX_PATTERN = 4000
MAX_LINE = 1 << 20
"""Characters of a pattern and of a line that is searched: `re` backtracks."""
CLASSES = {
    **{"alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "upper": "A-Z", "lower": "a-z", "blank": " \\t"},
    **{"space": "\\s", "punct": "!-/:-@\\[-`{-~", "xdigit": "0-9A-Fa-f", "cntrl": "\\x00-\\x1f\\x7f"},
    **{"print": " -~", "graph": "!-~"},
}
_SET = r"\[([!^]?+)((?:\]?(?:\[:[a-z]*:\]|{inside})+)|\])\]"
_REGEX_TOKEN = re.compile(r"\\(.)|(" + _SET.format(inside=r"[^]]") + r")|(.)", re.DOTALL)
_GLOB_TOKEN = re.compile(r"\\(.)|(" + _SET.format(inside=r"\\.|[^]\\]") + r")|(.)", re.DOTALL)
_MEMBER = re.compile(r"\[:([a-z]*):\]|(\\?.)-(\\?.)|(\\?.)", re.DOTALL)
_BOUNDS = re.compile(r"(\d{1,3})(?:(,)(\d{0,3}))?(\\?)\}")
_ESCAPES = {"n": "\\n", "t": "\\t", "<": r"\b(?=\w)", ">": r"\b(?<=\w)", **{c: f"\\{c}" for c in "bBwWsS"}}
Pattern = re.Pattern[str]


class RegexFault(ValueError):
    """The regular expression is malformed or too long."""


@lru_cache(maxsize=256)
def compiled(source: str, extended: bool = False, fold: bool = False, fixed: bool = False) -> Pattern:
    """A basic or extended regular expression. `RegexFault` for a bad one."""
    if len(source) > MAX_PATTERN:
        raise RegexFault("Regular expression too big")
    text = re.escape(source) if fixed else _translated(source, extended)
    try:
        return re.compile(text, re.IGNORECASE if fold else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise RegexFault(str(error)) from None


def _translated(source: str, extended: bool) -> str:
    atoms: list[str] = []
    groups: list[list[str]] = []
    repeated = False  # whether the last atom has a quantifier: a second one must not make it lazy or possessive
    at = 0
    while at < len(source):
        token = _REGEX_TOKEN.match(source, at)
        assert token is not None
        at = token.end()
        escaped, char = token[1], token[1] or token[5]
        operator = char if char and char in "(){}|+?" and (escaped is None) == extended else ""
        first = not atoms or atoms[-1] in ("|", "^")
        quantifier = ""
        if token[2]:
            atoms.append(_set(token[3], token[4], escapes=False))
        elif operator == "(":
            groups.append(atoms)
            atoms = []
        elif operator == ")":
            if not groups:
                raise RegexFault("Unmatched ) or \\)")
            atoms = [*groups.pop(), f"({''.join(atoms)})"]
        elif operator == "|":
            atoms.append("|")
        elif operator == "{":
            bounds = _BOUNDS.match(source, at)
            if bounds is None or bool(bounds[4]) == extended or int(bounds[3] or 0) > 255 or int(bounds[1]) > 255:
                raise RegexFault("Invalid content of \\{\\}")
            quantifier, at = "{" + bounds[1] + (bounds[2] or "") + (bounds[3] or "") + "}", bounds.end()
        elif operator in ("+", "?") or char == "*" and escaped is None and (extended or not first):
            quantifier = char
        elif escaped is not None:
            atoms.append(f"(?:\\{char})" if char in "123456789" else _ESCAPES.get(char) or re.escape(char))
        elif char in "\\[":
            raise RegexFault("Trailing backslash" if char == "\\" else "Unmatched [, [^, [:, [., or [=")
        elif char == "^" and (extended or first):
            atoms.append("^")
        elif char == "$" and (extended or at == len(source) or source.startswith(("\\)", "\\|"), at)):
            atoms.append("\\Z")
        else:
            atoms.append("." if char == "." else re.escape(char))
        if quantifier:
            if first:
                raise RegexFault("Invalid preceding regular expression")
            atoms[-1] = f"(?:{atoms[-1]}){quantifier}" if repeated else atoms[-1] + quantifier
        repeated = bool(quantifier)
    if groups:
        raise RegexFault("Unmatched ( or \\(")
    return "".join(atoms)


def _set(negation: str, members: str, escapes: bool) -> str:
    """A bracket expression. A backslash quotes in file name patterns only."""

    def escape(char: str) -> str:
        return re.escape(char[-1]) if escapes else "".join(map(re.escape, char))

    def member(found: re.Match[str]) -> str:
        if found[1] is not None:
            if found[1] not in CLASSES:
                raise RegexFault("Invalid character class name")
            return CLASSES[found[1]]
        return f"{escape(found[2])}-{escape(found[3])}" if found[2] else escape(found[4])

    if negation == "!" and not escapes:
        negation, members = "", "!" + members
    return f"[{'^' if negation else ''}{_MEMBER.sub(member, members)}]"


def glob_source(pattern: str, lazy: bool = False) -> str:
    """A file name pattern for `re`. Only the last star backtracks, so matching takes linear time."""
    if len(pattern) > MAX_PATTERN:
        raise RegexFault("pattern too long")
    parts = [""]
    for token in _GLOB_TOKEN.finditer(pattern):
        if token[5] == "*":
            parts.append("")
        elif token[2]:
            try:
                piece = _set(token[3], token[4], escapes=True)
                re.compile(piece)
            except (RegexFault, re.error):
                piece = re.escape(token[2])
            parts[-1] += piece
        else:
            parts[-1] += "." if token[5] == "?" else re.escape(token[1] or token[5])
    if len(parts) == 1:
        return parts[0]
    middle = "".join(f"(?>.*?{part})" for part in parts[1:-1] if part)
    return f"{parts[0]}{middle}{'.*?' if lazy else '.*'}{parts[-1]}"


@lru_cache(maxsize=256)
def glob(pattern: str, fold: bool = False) -> Pattern:
    """A file name pattern, for `fullmatch`; a backslash quotes."""
    return re.compile(glob_source(pattern), re.DOTALL | (re.IGNORECASE if fold else 0))


@lru_cache(maxsize=256)
def _trimmer(op: str, pattern: str) -> Pattern:
    source = glob_source(pattern, lazy=op == "#")
    if op[0] == "#":
        return re.compile(f"{source}(?P<rest>.*)", re.DOTALL)
    return re.compile(f"(?P<rest>{'.*' if op == '%' else '.*?'}){source}", re.DOTALL)


def trimmed(value: str, op: str, pattern: str) -> str:
    """`${value#pattern}`: without the shortest (`#`, `%`) or longest (`##`, `%%`) match at the start or the end."""
    found = _trimmer(op, pattern).fullmatch(value)
    return found["rest"] if found else value
