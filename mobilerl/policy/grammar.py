"""Grammar of one action: a call with named arguments, parsed by a tokenizer and recursive descent.

    call   := NAME "(" [ pair { "," pair } ] ")"
    pair   := NAME "=" value
    value  := STRING | INT | MARK | "[" INT { "," INT } "]"

Nothing is executed, and text outside this grammar is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


class GrammarError(ValueError):
    """Text outside the grammar. The message is addressed to the model that wrote the text."""


@dataclass(frozen=True, slots=True)
class Mark:
    number: int


Value = str | int | Mark | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: Mapping[str, Value]


_TOKEN = re.compile(
    r"""\s*(?:
        (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<int>-?[0-9]+)
      | (?P<mark><[0-9]+>)
      | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<sign>[()\[\],=])
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\", "/": "/"}
MAX_CALL = 100_000
_MAX_DIGITS = 9
_MAX_QUOTE = 24

Token = tuple[str, str]
_END: Token = ("end", "")


def parse_call(text: str) -> Call:
    """Parses one call. Raises GrammarError for anything but exactly one call of at most MAX_CALL characters."""
    if len(text) > MAX_CALL:
        raise GrammarError(f"the call has more than {MAX_CALL} characters")
    tokens = _Reader(_tokenize(text))
    name = tokens.take("name", 'expected a call such as do(action="Back")')
    tokens.expect("(")
    arguments: dict[str, Value] = {}
    while not tokens.skip(")"):
        if arguments:
            tokens.expect(",")
        key = tokens.take("name", 'arguments need names, as in action="Back"')
        tokens.expect("=")
        if key in arguments:
            raise GrammarError(f'argument "{excerpt(key)}" is given twice')
        arguments[key] = _value(tokens)
    if tokens.next != _END:
        raise GrammarError("there is text after the call")
    return Call(name, arguments)


def quote(text: str) -> str:
    """Writes `text` as a STRING on one line. `</` is escaped, since a closing tag would end the response."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("</", "<\\/")
    return '"' + text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


def _unquote(token: str) -> str:
    return _ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[0]), token[1:-1])


def _tokenize(text: str) -> list[Token]:
    text = text.rstrip()
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            rest = text[position:].lstrip()
            if rest[0] in "\"'":
                raise GrammarError("a quoted text is not closed")
            raise GrammarError(f"cannot read: {excerpt(rest)}")
        kind = match.lastgroup
        assert kind is not None  # every alternative is a group
        tokens.append((kind, match[kind]))
        position = match.end()
        if tokens[-1] == ("sign", ")"):
            break  # the call ends here; the rest is reported as trailing text
    if text[position:].strip():
        tokens.append(("rest", text[position:]))
    return tokens


class _Reader:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._position = 0

    @property
    def next(self) -> Token:
        return self._tokens[self._position] if self._position < len(self._tokens) else _END

    def skip(self, sign: str) -> bool:
        """Takes the next token if it is `sign`. Returns whether it was."""
        found = self.next == ("sign", sign)
        self._position += found
        return found

    def expect(self, sign: str) -> None:
        if not self.skip(sign):
            found = self.next
            raise GrammarError(
                "the call is not closed" if found == _END else f'expected "{sign}" before: {excerpt(found[1])}'
            )

    def take(self, kind: str, otherwise: str) -> str:
        """Takes the next token and returns its text. Raises GrammarError if it is of another kind."""
        found, text = self.next
        if found != kind:
            raise GrammarError("the call is not closed" if found == "end" and self._position else otherwise)
        self._position += 1
        return text


def _value(tokens: _Reader) -> Value:
    kind, text = tokens.next
    if kind == "string":
        return _unquote(tokens.take("string", ""))
    if kind == "int":
        return _integer(tokens)
    if kind == "mark":
        return Mark(_number(tokens.take("mark", "")[1:-1]))
    if tokens.skip("["):
        numbers = [_integer(tokens)]
        while not tokens.skip("]"):
            tokens.expect(",")
            numbers.append(_integer(tokens))
        return tuple(numbers)
    raise GrammarError("the call is not closed" if kind == "end" else f"cannot read the value: {excerpt(text)}")


def _integer(tokens: _Reader) -> int:
    return _number(tokens.take("int", "a list holds whole numbers only"))


def _number(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise GrammarError(f"the number {excerpt(digits)} is too large")
    return int(digits)


def excerpt(text: str) -> str:
    """Excerpt of the model's text for an error message: short, printable, and without special tokens."""
    shown = "".join(c if c.isprintable() and c not in "<>" else "?" for c in text[:_MAX_QUOTE])
    return shown if len(text) <= _MAX_QUOTE else shown + "..."
