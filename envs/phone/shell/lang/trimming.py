"""`${name#pattern}`, `${name/pattern/text}` and `${name:offset:length}`."""

from __future__ import annotations

from collections.abc import Callable

from envs.phone.shell.regex import glob

Spend = Callable[[int], None]


def trimmed(value: str, op: str, pattern: str, spend: Spend) -> str:
    """Without the shortest (`#`, `%`) or longest (`##`, `%%`) match at the start or the end."""
    behind = op[0] == "%"
    ends = glob(pattern, reverse=behind).ends(value[::-1] if behind else value, spend)
    if not ends:
        return value
    size = ends[-1] if len(op) == 2 else ends[0]
    return value[: len(value) - size] if behind else value[size:]


def replaced(value: str, op: str, pattern: str, by: str, spend: Spend, most: int) -> str:
    """The first match, or every match (`//`), replaced; a pattern behind `#` or `%` stands at the start or end."""
    if op == "/" and pattern[:1] in ("#", "%"):
        rest = trimmed(value, pattern[0] * 2, pattern[1:], spend)
        if rest == value:
            return value
        return by + rest if pattern[0] == "#" else rest + by
    if not pattern:
        return value
    compiled = glob(pattern)
    out: list[str] = []
    at = size = 0
    while at < len(value) and (found := compiled.search(value, spend, at)):
        begin, end = found
        if begin == end:
            break
        out += (value[at:begin], by)
        size += begin - at + len(by)
        spend(1 + (size > most) * 10**9)
        at = end
        if op == "/":
            break
    return "".join([*out, value[at:]])


def substring(value: str, offset: int, length: int | None) -> str:
    if offset < 0:
        offset = max(0, len(value) + offset) if -offset <= len(value) else len(value)
    if length is None:
        return value[offset:]
    return value[offset : offset + length] if length >= 0 else value[offset : len(value) + length]
