"""Splits a shell line: words, quotes, `;`, `&&`, `||` and `>`/`>>` to a file. Nothing is ever substituted."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<space>[ \t]+)
      | (?P<end>;|\n|&&|\|\|)
      | (?P<err>2>&1|2>>?[ \t]*/dev/null)
      | (?P<to>>>|>)
      | '(?P<single>[^']*)'
      | "(?P<double>(?:[^"\\]|\\.)*)"
      | \\(?P<escaped>.)
      | (?P<bad>[`|&<()]|\$[({])
      | (?P<open>['"])
      | (?P<plain>[^\s;&|<>'"\\`()$]+|\$)
      """,
    re.VERBOSE | re.DOTALL,
)
_IN_DOUBLE = re.compile(r'\\([\\"$`\n])')


class SyntaxFault(ValueError):
    """The line uses something outside the subset, or a quote is not closed."""


@dataclass(slots=True)
class Command:
    """One simple command. `when` says which exit codes of the one before let it run: "" any, "&&" 0, "||" not 0."""

    when: str = ""
    words: list[str] = field(default_factory=list)
    target: str = ""
    append: bool = False
    merge_errors: bool = False
    drop_errors: bool = False


def split(line: str) -> list[Command]:
    """The commands of `line` in order. Raises `SyntaxFault`."""
    command = Command()
    commands = [command]
    word: str | None = None
    redirect = False

    def close_word() -> None:
        nonlocal word, redirect
        if word is not None and redirect:
            command.target, redirect = word, False
        elif word is not None:
            command.words.append(word)
        word = None

    position = 0
    while position < len(line):
        match = _TOKEN.match(line, position)
        if match is None:
            raise SyntaxFault(f"syntax error: unexpected '{line[position]}'")
        position, kind = match.end(), match.lastgroup
        if kind in ("bad", "open"):
            what = "no closing quote" if kind == "open" else f"syntax error: unexpected '{match[0]}'"
            raise SyntaxFault(what)
        if kind in ("plain", "single", "escaped"):
            word = (word or "") + match[kind]
        elif kind == "double":
            if re.search(r"(?<!\\)(`|\$\()", match["double"]):
                raise SyntaxFault("syntax error: substitution is not supported")
            word = (word or "") + _IN_DOUBLE.sub(r"\1", match["double"])
        else:
            close_word()
            if kind == "to":
                redirect, command.append = True, match["to"] == ">>"
            elif kind == "err":
                command.merge_errors = match["err"] == "2>&1"
                command.drop_errors = not command.merge_errors
            elif kind == "end":
                _require_target(redirect)
                command = Command("" if match["end"] in ";\n" else match["end"])
                commands.append(command)
    close_word()
    _require_target(redirect)
    return [c for c in commands if c.words or c.target]


def _require_target(redirect: bool) -> None:
    if redirect:
        raise SyntaxFault("syntax error: unexpected 'newline'")
