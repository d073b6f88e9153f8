"""Brace expansion: `a{b,c}d` is `abd acd`."""

from __future__ import annotations

from collections.abc import Iterator

from envs.phone.shell.lang.nodes import Literal, Part, Word
from envs.phone.shell.lang.state import Budget, ShellFault

MAX_BRACES = 24
Item = str | Part
"""A character of unquoted text, or any other part."""


def braced(word: Word, budget: Budget) -> Iterator[Word]:
    if not any(isinstance(p, Literal) and not p.quoted and "{" in p.text for p in word.parts):
        yield word
        return
    items: list[Item] = []
    for part in word.parts:
        items += part.text if isinstance(part, Literal) and not part.quoted else (part,)
    if items.count("{") > MAX_BRACES:
        raise ShellFault("too many braces in a word")
    for expanded in _expanded(items, 0, budget):
        yield Word(tuple(_parts(expanded)))


def _expanded(items: list[Item], start: int, budget: Budget) -> Iterator[list[Item]]:
    for at in range(start, len(items)):
        found = _choices(items, at) if items[at] == "{" else None
        if found is None:
            continue
        choices, end = found
        for choice in choices:
            budget.spend(1 + len(items))
            yield from _expanded([*items[:at], *choice, *items[end:]], at, budget)
        return
    yield items


def _choices(items: list[Item], at: int) -> tuple[list[list[Item]], int] | None:
    """The choices of the brace at `at`, and the place behind it; None for a brace without a comma or an end."""
    depth, choices, choice = 0, [], []
    for place in range(at + 1, len(items)):
        item = items[place]
        if item == "}" and depth == 0:
            return ([*choices, choice], place + 1) if choices else None
        if item == "," and depth == 0:
            choices.append(choice)
            choice = []
            continue
        depth += (item == "{") - (item == "}")
        choice.append(item)
    return None


def _parts(items: list[Item]) -> Iterator[Part]:
    text = ""
    for item in items:
        if isinstance(item, str):
            text += item
            continue
        if text:
            yield Literal(text)
            text = ""
        yield item
    if text:
        yield Literal(text)
