"""Reads JSON objects, Python literals and calls as models write them. Nothing is executed.

Published agents read responses with `json.loads`, `ast.literal_eval`, `eval` or regular expressions. This reader
accepts the literals that any of them accepts: either kind of quotes, `true` and `True`, tuples, leading zeros, trailing
commas, raw line breaks and unescaped quotation marks in texts. It rejects expressions, and whatever is not closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mobilerl.policy.grammar import MAX_CALL, GrammarError, excerpt

_MAX_DEPTH, _MAX_DIGITS = 20, 30
_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?(?![\w.])", re.ASCII)
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": "", **{c: c for c in "\"'\\/"}}

# In a value, a quotation mark closes the text only if what follows goes on with the container; others belong to it.
_KEY = r"(?:[A-Za-z_]\w*|\"[^\"\\]*(?:\\.[^\"\\]*)*\"|'[^'\\]*(?:\\.[^'\\]*)*')"
_AFTER_MEMBER = re.compile(rf"\s*(?:\}}|,\s*(?:\}}|{_KEY}\s*:))", re.DOTALL)
_AFTER_ITEM = re.compile(r"\s*[,\])]")
_AFTER_ARGUMENT = re.compile(r"\s*(?:\)|,\s*(?:\)|[A-Za-z_]\w*\s*=))")
_AT_THE_END = re.compile(r"\s*\)\s*?(?=\n|<|```|\Z)")


@dataclass(frozen=True, slots=True)
class Written:
    """A call and where it ends in the text that was read."""

    name: str
    arguments: Mapping[str, Any]
    end: int


def read_object(text: str) -> tuple[dict[str, Any], int]:
    """Reads the JSON object or Python dictionary with which a text begins. Returns it and where it ends.

    An integer with leading zeros is returned as a text, since it may be one, as in a phone number. Raises GrammarError.
    """
    reader = _Reader(text, 0)
    return reader.object(0), reader.at


def read_call(text: str, start: int = 0, free: tuple[str, ...] = (), bare: bool = False) -> Written:
    """Reads a call with named arguments, such as do(action="Tap", element=[1,2]), that begins at `start`.

    The text of an argument in `free` goes up to the end of the call, whatever it contains, if that is at the end of a
    line; otherwise it is read like the others. With `bare`, values may be texts without quotes. Raises GrammarError.
    """
    try:
        return _call(_Reader(text, start), free, bare)
    except GrammarError:
        if not free:
            raise
        return _call(_Reader(text, start), (), bare)


def _call(reader: _Reader, free: tuple[str, ...], bare: bool) -> Written:
    name = reader.take(_NAME, "expected a call")
    reader.expect("(")
    arguments: dict[str, Any] = {}
    while not reader.skip(")"):
        if arguments:
            reader.expect(",")
            if reader.skip(")"):
                break
        key = reader.take(_NAME, "arguments need names")
        reader.expect("=")
        if key in arguments:
            raise GrammarError(f'argument "{excerpt(key)}" is given twice')
        after = _AT_THE_END if key in free else _AFTER_ARGUMENT
        arguments[key] = reader.bare(after) if bare and reader.is_bare() else reader.value(after, 0)
    return Written(name, arguments, reader.at)


class _Reader:
    """A position in a text. Methods advance it, and raise GrammarError where the text is not what they read."""

    def __init__(self, text: str, start: int) -> None:
        if len(text) - start > MAX_CALL:
            raise GrammarError(f"the call has more than {MAX_CALL} characters")
        self.text, self.at = text, start

    def space(self) -> None:
        if found := _SPACE.match(self.text, self.at):
            self.at = found.end()

    def skip(self, sign: str) -> bool:
        """Takes `sign` if it comes next. Returns whether it did."""
        self.space()
        found = self.text.startswith(sign, self.at)
        self.at += len(sign) * found
        return found

    def expect(self, sign: str) -> None:
        if not self.skip(sign):
            rest = self.text[self.at :]
            raise GrammarError(f'expected "{sign}" before: {excerpt(rest)}' if rest else "the call is not closed")

    def take(self, pattern: re.Pattern[str], otherwise: str) -> str:
        self.space()
        if (found := pattern.match(self.text, self.at)) is None:
            raise GrammarError(otherwise)
        self.at = found.end()
        return found[0]

    def value(self, after: re.Pattern[str], depth: int) -> Any:
        """Reads a value. `after` matches what may follow a text here."""
        self.space()
        sign = self.text[self.at : self.at + 1]
        if sign in ('"', "'"):
            return self.string(after)
        if sign == "{":
            return self.object(depth + 1)
        if sign in ("[", "("):
            return self.items("]" if sign == "[" else ")", depth + 1)
        if found := _NUMBER.match(self.text, self.at):
            self.at = found.end()
            return _number(found[0])
        word = _NAME.match(self.text, self.at)
        if word is None or word[0] not in _WORDS:
            rest = excerpt(self.text[self.at :])
            raise GrammarError(f"cannot read the value: {rest}" if rest else "the call is not closed")
        self.at = word.end()
        return _WORDS[word[0]]

    def string(self, after: re.Pattern[str] | None = None) -> str:
        quote = self.text[self.at]
        for found in re.compile(rf"\\.|{quote}", re.DOTALL).finditer(self.text, self.at + 1):
            if found[0] == quote and (after is None or after.match(self.text, found.end())):
                text, self.at = self.text[self.at + 1 : found.start()], found.end()
                return _unescape(text)
        raise GrammarError("a quoted text is not closed")

    def is_bare(self) -> bool:
        self.space()
        return self.text[self.at : self.at + 1] not in ('"', "'", "(", "[", "{") and not _NUMBER.match(
            self.text, self.at
        )

    def bare(self, after: re.Pattern[str]) -> str:
        """Reads a text without quotes up to the end of its argument."""
        depth = 0
        for found in re.compile(r"[(),]").finditer(self.text, self.at):
            if found[0] == "(":
                depth += 1
            elif depth:
                depth -= found[0] == ")"
            elif after.match(self.text, found.start()):
                text, self.at = self.text[self.at : found.start()].strip(), found.start()
                return text
        raise GrammarError("the call is not closed")

    def object(self, depth: int) -> dict[str, Any]:
        def member() -> None:
            self.space()
            quoted = self.text[self.at : self.at + 1] in ('"', "'")
            key = self.string() if quoted else self.take(_NAME, "expected a key in quotes")
            self.expect(":")
            members[key] = self.value(_AFTER_MEMBER, depth)

        members: dict[str, Any] = {}
        self.expect("{")
        self._container("}", depth, member)
        return members

    def items(self, end: str, depth: int) -> list[Any]:
        values: list[Any] = []
        self.at += 1
        self._container(end, depth, lambda: values.append(self.value(_AFTER_ITEM, depth)))
        return values

    def _container(self, end: str, depth: int, read: Callable[[], None]) -> None:
        """Reads up to the sign `end`, separated by commas, with an optional one after the last."""
        if depth > _MAX_DEPTH:
            raise GrammarError("the value is nested too deeply")
        first = True
        while not self.skip(end):
            if not first:
                self.expect(",")
                if self.skip(end):
                    return
            read()
            first = False


def _number(text: str) -> int | float | str:
    if len(text) > _MAX_DIGITS:
        raise GrammarError(f"the number {excerpt(text)} is too large")
    if not re.fullmatch(r"[+-]?\d+", text):
        return float(text)
    return text if re.match(r"[+-]?0\d", text) else int(text)


def _unescape(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, found[0])

    if "\\" not in text:
        return text
    # JSON writes characters beyond 16 bits as two escapes.
    return _ESCAPE.sub(character, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
