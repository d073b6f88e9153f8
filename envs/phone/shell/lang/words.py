"""Reads words: quotes, parameters, substitutions. `WordReader` is the part of the lexer below the level of tokens."""

from __future__ import annotations

import re
from collections.abc import Callable

from envs.phone.shell.lang.escapes import LETTERS
from envs.phone.shell.lang.nodes import (
    Arithmetic,
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
_SPECIAL = "@*#?-$!0123456789"
_OPERATORS = re.compile(r":?[-=+?]|##?|%%?|//?|:")
_PATTERN_OPERATORS = ("#", "##", "%", "%%", "/", "//")
_ANSI_LETTERS = {**LETTERS, "E": "\x1b"}
_NUMBER_ESCAPES = re.compile(r"x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})")


class WordReader:
    """`substitute` parses commands from a reader's place up to the closing parenthesis, which it takes too."""

    def __init__(self, text: str, substitute: Callable[[WordReader], Script], depth: int = 0) -> None:
        self.text, self.position, self.depth = text, 0, depth
        self.substitute = substitute

    def peek(self, size: int = 1) -> str:
        return self.text[self.position : self.position + size]

    def deeper(self, by: int = 1) -> None:
        self.depth += by
        if self.depth > MAX_NESTING:
            raise SyntaxFault(f"syntax error: nested more than {MAX_NESTING} deep")

    # --- words -------------------------------------------------------------------------------------------------

    def word(self) -> Word:
        """The word that starts here; it has at least one part."""
        return make_word(self.parts(WORD_ENDS, quoted=False))

    def parts(self, ends: str, quoted: bool, quotes: bool = True) -> list[Part]:
        """Parts up to an unquoted character of `ends`, which is not taken; without `ends`, to the end of the text.

        `quoted` is the inside of double quotes; `quotes=False` is a here-document, where a double quote is a letter.
        """
        parts: list[Part] = []
        plain: list[str] = []

        def add(part: Part) -> None:
            if plain:
                parts.append(Literal("".join(plain), quoted))
                plain.clear()
            parts.append(part)

        while self.position < len(self.text):
            char = self.text[self.position]
            if char in ends:
                break
            if char == "\\":
                self._escape(plain, add, quoted, quotes)
            elif char == "'" and not quoted:
                add(Literal(self._single(), True))
            elif char == '"' and quotes:
                for part in self._double():
                    add(part)
            elif char == "$":
                self._dollar(plain, add, quoted)
            elif char == "`":
                add(self._backticks(quoted))
            else:
                plain.append(char)
                self.position += 1
        else:
            if ends and ends is not WORD_ENDS:
                raise Incomplete("no closing quote")
        if plain:
            parts.append(Literal("".join(plain), quoted))
        return parts

    def _escape(self, plain: list[str], add: Callable[[Part], None], quoted: bool, quotes: bool) -> None:
        char = self.text[self.position + 1 : self.position + 2]
        self.position += 2
        if char == "\n":
            return
        if not quoted:
            add(Literal(char or "\\", True))
        elif char and char in ('$`\\"' if quotes else "$`\\"):
            plain.append(char)
        else:
            plain.append("\\" + char)

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

    def _ansi(self) -> str:
        """The rest of `$'...'`, from behind its first quote."""
        out: list[str] = []
        while (char := self.peek()) != "'":
            if not char:
                raise Incomplete("no closing quote")
            self.position += 1
            if char != "\\":
                out.append(char)
                continue
            number = _NUMBER_ESCAPES.match(self.text, self.position)
            if number:
                self.position = number.end()
                hexadecimal = number[1] or number[2] or number[3]
                code = int(hexadecimal, 16) if hexadecimal else int(number[4], 8)
                if number[1] or number[4]:
                    code &= 0xFF
                    out.append(chr(code) if code < 0x80 else chr(0xDC00 + code))
                elif code < 0x110000:
                    out.append(chr(code))
            else:
                letter = self.peek()
                self.position += 1
                out.append(_ANSI_LETTERS.get(letter, letter))
        self.position += 1
        return "".join(out).split("\0", 1)[0]

    # --- what a dollar starts ----------------------------------------------------------------------------------

    def _dollar(self, plain: list[str], add: Callable[[Part], None], quoted: bool) -> None:
        following = self.text[self.position + 1 : self.position + 2]
        if following == "'" and not quoted:
            self.position += 2
            add(Literal(self._ansi(), True))
        elif following == "(":
            self.deeper()
            add(self._parenthesis(quoted))
            self.deeper(-1)
        elif following == "{":
            self.deeper()
            self.position += 2
            add(self._braced(quoted))
            self.deeper(-1)
        elif name := NAME.match(self.text, self.position + 1):
            self.position = name.end()
            add(Parameter(name[0], quoted=quoted))
        elif following and following in _SPECIAL:
            self.position += 2
            add(Parameter(following, quoted=quoted))
        else:
            plain.append("$")
            self.position += 1

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
        """The rest of `${...}`."""
        length = self.peek() == "#" and self.peek(2) not in ("#}", "#-", "#=", "#+", "#?", "#:", "##", "#%")
        self.position += length
        found = NAME.match(self.text, self.position) or re.compile(r"\d+|[@*#?$!-]").match(self.text, self.position)
        if found is None:
            raise self._bad_substitution()
        self.position = found.end()
        if self.peek() == "}":
            self.position += 1
            return Parameter(found[0], "length" if length else "", quoted=quoted)
        op = _OPERATORS.match(self.text, self.position)
        if op is None or length:
            raise self._bad_substitution()
        self.position = op.end()
        pattern = op[0] in _PATTERN_OPERATORS
        ends = {"/": "/}", "//": "/}", ":": ":}"}.get(op[0], "}")
        argument = make_word(self.parts(ends, quoted=quoted and not pattern))
        second = None
        if self.peek() != "}":
            self.position += 1
            second = make_word(self.parts("}", quoted=quoted))
        self.position += 1
        return Parameter(found[0], op[0], argument, second, quoted)

    def _bad_substitution(self) -> SyntaxFault:
        if "}" not in self.text[self.position :]:
            return Incomplete("no closing quote")
        end = self.text.index("}", self.position) + 1
        return SyntaxFault(f"{self.text[self.position - 2 : end]}: bad substitution")

    def _backticks(self, quoted: bool) -> Part:
        out: list[str] = []
        self.position += 1
        while (char := self.peek()) != "`":
            if not char:
                raise Incomplete("no closing quote")
            self.position += 1
            if char == "\\" and self.peek() in ('\\$`"' if quoted else "\\$`"):
                char = self.peek()
                self.position += 1
            out.append(char)
        self.position += 1
        self.deeper()
        inner = WordReader("".join(out) + "\n)", self.substitute, self.depth)
        script = self.substitute(inner)
        if inner.position < len(inner.text):
            raise SyntaxFault("syntax error: unexpected ')'")
        self.deeper(-1)
        return Substitution(script, quoted)


def make_word(parts: list[Part]) -> Word:
    """Adds the word's plain value, where it has one."""
    texts = []
    for part in parts:
        if not isinstance(part, Literal) or not part.quoted and any(c in "*?[~{" for c in part.text):
            return Word(tuple(parts))
        texts.append(part.text)
    return Word(tuple(parts), "".join(texts))
