"""The lexer: cuts a script into tokens, and reads words with their quotes, parameters and substitutions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from envs.phone.shell.lang.escapes import unescaped
from envs.phone.shell.lang.nodes import (
    Arithmetic,
    HereDocument,
    Incomplete,
    Literal,
    Parameter,
    Part,
    Script,
    Substitution,
    SyntaxFault,
    Word,
)

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WORD_ENDS = " \t\n;&|<>()"
MAX_NESTING = 40
"""How deep substitutions, groups and loops may be nested in each other."""
_PARAMETER = re.compile(rf"{NAME.pattern}|[@*#?$!0-9-]")
_BRACED = re.compile(rf"{NAME.pattern}|\d+|[@*#?$!-]")
_LENGTH = re.compile(r"#(?![}=+?:#%]|-[^}])")
_OPERATORS = re.compile(r":?[-=+?]|##?|%%?|:")
_ANSI = re.compile(r"\$'((?:\\.|[^'\\])*)'", re.DOTALL)
_BLANK = re.compile(r"(?:[ \t\r]|\\\n)*(?:#[^\n]*)?")
_OPERATOR = re.compile(r"&>>|<<<|<<-|&&|\|\||;;|<<|>>|>&|<&|<>|>\||&>|[;&|()<>]")
_IO_NUMBER = re.compile(r"\d(?=[<>])")


class Token(NamedTuple):
    """`kind` is "word", "op", "io" (the number before a redirection), "newline" or "end"."""

    kind: str
    text: str
    word: Word | None = None

    @property
    def plain(self) -> str | None:
        """The text of an unquoted word, which may be reserved; None for everything else."""
        part = self.word.parts[0] if self.word and len(self.word.parts) == 1 else None
        return part.text if isinstance(part, Literal) and not part.quoted else None


class Reader:
    """`substitute` parses commands from a reader's place up to the closing parenthesis, which it takes too."""

    def __init__(self, text: str, substitute: Callable[[Reader], Script], depth: int = 0) -> None:
        self.text, self.position, self.depth = text, 0, depth
        self.substitute = substitute

    def peek(self, size: int = 1) -> str:
        return self.text[self.position : self.position + size]

    def deeper(self, by: int = 1) -> None:
        self.depth += by
        if self.depth > MAX_NESTING:
            raise SyntaxFault(f"syntax error: nested more than {MAX_NESTING} deep")

    def token(self, pending: list[HereDocument]) -> Token:
        """The next token. At the end of a line the bodies of the `pending` here-documents are read."""
        blank = _BLANK.match(self.text, self.position)
        assert blank is not None
        start = self.position = blank.end()
        if start >= len(self.text):
            if pending:
                raise Incomplete(f"here document '{pending[0].delimiter}' unclosed")
            return Token("end", "EOF")
        if self.text[start] == "\n":
            self.position += 1
            for document in pending:
                self._read_document(document)
            pending.clear()
            return Token("newline", "\n")
        for kind, pattern in (("io", _IO_NUMBER), ("op", _OPERATOR)):
            if found := pattern.match(self.text, start):
                self.position = found.end()
                return Token(kind, found[0])
        word = make_word(self.parts(WORD_ENDS, quoted=False))
        return Token("word", self.text[start : self.position], word)

    def _read_document(self, document: HereDocument) -> None:
        lines: list[str] = []
        while self.position < len(self.text):
            end = self.text.find("\n", self.position)
            end = len(self.text) if end < 0 else end
            line = self.text[self.position : end]
            self.position = min(end + 1, len(self.text))
            line = line.lstrip("\t") if document.strip_tabs else line
            if line == document.delimiter:
                break
            lines.append(f"{line}\n")
        else:
            raise Incomplete(f"here document '{document.delimiter}' unclosed")
        text = "".join(lines)
        if document.raw:
            document.body = Word((Literal(text, True),), text)
        else:
            inner = Reader(text, self.substitute, self.depth)
            document.body = make_word(inner.parts("", quoted=True, quotes=False))

    # --- words -------------------------------------------------------------------------------------------------

    def parts(self, ends: str, quoted: bool, quotes: bool = True) -> list[Part]:
        """Parts up to an unquoted character of `ends`, which is not taken; without `ends`, to the end of the text.

        `quoted` is the inside of double quotes; `quotes=False` is a here-document, where a double quote is a letter.
        """
        parts: list[Part] = []
        plain: list[str] = []

        def flush() -> None:
            if plain:
                parts.append(Literal("".join(plain), quoted))
                plain.clear()

        while self.position < len(self.text):
            char = self.text[self.position]
            if char in ends:
                break
            found: list[Part] | str = char
            if char == "\\":
                found = self._escape(quoted, quotes)
            elif char == "'" and not quoted:
                found = [Literal(self._single(), True)]
            elif char == '"' and quotes:
                found = self._double()
            elif char == "$":
                found = self._dollar(quoted)
            elif char == "`":
                found = [self._backticks(quoted)]
            else:
                self.position += 1
            if isinstance(found, str):
                plain.append(found)
            else:
                flush()
                parts += found
        else:
            if ends and ends is not WORD_ENDS:
                raise Incomplete("no closing quote")
        flush()
        return parts

    def _escape(self, quoted: bool, quotes: bool) -> list[Part] | str:
        char = self.text[self.position + 1 : self.position + 2]
        self.position += 2
        if char == "\n":
            return ""
        if not quoted:
            return [Literal(char or "\\", True)]
        return char if char and char in ('$`\\"' if quotes else "$`\\") else "\\" + char

    def _single(self) -> str:
        end = self.text.find("'", self.position + 1)
        if end < 0:
            raise Incomplete("no closing quote")
        value = self.text[self.position + 1 : end]
        self.position = end + 1
        return value

    def _double(self) -> list[Part]:
        self.position += 1
        self.deeper()
        parts = self.parts('"', quoted=True)
        self.deeper(-1)
        self.position += 1
        return parts or [Literal("", True)]

    # --- what a dollar starts ----------------------------------------------------------------------------------

    def _dollar(self, quoted: bool) -> list[Part] | str:
        following = self.text[self.position + 1 : self.position + 2]
        if not quoted and (ansi := _ANSI.match(self.text, self.position)):
            self.position = ansi.end()
            return [Literal(unescaped(ansi[1])[0].partition("\0")[0], True)]
        if following in ("(", "{"):
            self.deeper()
            part = self._parenthesis(quoted) if following == "(" else self._braced(quoted)
            self.deeper(-1)
            return [part]
        if name := _PARAMETER.match(self.text, self.position + 1):
            self.position = name.end()
            return [Parameter(name[0], quoted=quoted)]
        self.position += 1
        return "$"

    def _parenthesis(self, quoted: bool) -> Part:
        start = self.position
        if self.peek(3) == "$((":
            self.position += 3
            expression = self.arithmetic()
            if expression is not None:
                return Arithmetic(expression, quoted)
        self.position = start + 2
        return Substitution(self.substitute(self), quoted)

    def arithmetic(self) -> Word | None:
        """The expression up to `))`, which is taken; None where a parenthesis closes alone: it was no arithmetic."""
        parts: list[Part] = []
        depth = 0
        while True:
            parts += self.parts("()", quoted=True)
            char = self.peek()
            if char == ")" and depth == 0:
                if self.peek(2) != "))":
                    return None
                self.position += 2
                return Word(tuple(parts))
            depth += 1 if char == "(" else -1
            parts.append(Literal(char, True))
            self.position += 1

    def _braced(self, quoted: bool) -> Part:
        """`${...}`."""
        start = self.position
        self.position += 2
        if length := _LENGTH.match(self.text, self.position):
            self.position += 1
        name = _BRACED.match(self.text, self.position)
        self.position = name.end() if name else self.position
        if name and self.peek() == "}":
            self.position += 1
            return Parameter(name[0], "length" if length else "", quoted=quoted)
        op = _OPERATORS.match(self.text, self.position)
        if name is None or op is None or length:
            end = self.text.find("}", self.position) + 1
            if not end:
                raise Incomplete("no closing quote")
            raise SyntaxFault(f"{self.text[start:end]}: bad substitution")
        self.position = op.end()
        argument = make_word(self.parts(":}" if op[0] == ":" else "}", quoted=quoted and op[0][0] not in "#%"))
        second = None
        if self.peek() == ":":
            self.position += 1
            second = make_word(self.parts("}", quoted=quoted))
        self.position += 1
        return Parameter(name[0], op[0], argument, second, quoted)

    def _backticks(self, quoted: bool) -> Part:
        found = re.compile(r"`((?:\\.|[^`\\])*)`", re.DOTALL).match(self.text, self.position)
        if found is None:
            raise Incomplete("no closing quote")
        self.position = found.end()
        self.deeper()
        inner = Reader(re.sub(r'\\([$`\\"])' if quoted else r"\\([$`\\])", r"\1", found[1]) + "\n)", self.substitute)
        inner.depth = self.depth
        script = self.substitute(inner)
        if inner.position < len(inner.text):
            raise SyntaxFault("syntax error: unexpected ')'")
        self.deeper(-1)
        return Substitution(script, quoted)


def make_word(parts: list[Part]) -> Word:
    """Adds the word's plain value, where it has one."""
    texts = []
    for part in parts:
        if not isinstance(part, Literal) or not part.quoted and any(c in "*?[~" for c in part.text):
            return Word(tuple(parts))
        texts.append(part.text)
    return Word(tuple(parts), "".join(texts))
