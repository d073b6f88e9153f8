"""Reading words: quotes, parameters, substitutions and arithmetic."""

from __future__ import annotations

import re

from envs.phone.shell.lang import syntax
from envs.phone.shell.lang.escapes import unescaped
from envs.phone.shell.lang.syntax import Incomplete, Literal, Part, SyntaxFault, Word

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
WORD_ENDS = " \t\n;&|<>()"
_PARAMETER = re.compile(rf"{NAME}|[@*#?$!0-9]")
_BRACED = re.compile(rf"{NAME}|\d+|[@*#?$!]")
_LENGTH = re.compile(r"#(?![}=+?:#%]|-[^}])")
_OPERATORS = re.compile(r":?[-=+?]|##?|%%?|:")
_PLAIN = re.compile(r"""[^ \t\n;&|<>()"'}:$`\\]+""")
_ANSI = re.compile(r"\$'((?:\\.|[^'\\])*)'", re.DOTALL)
_BACKTICKS = re.compile(r"`((?:\\.|[^`\\])*)`", re.DOTALL)


class WordReader:
    """A position in a script, and the methods that read a word from there."""

    def __init__(self, text: str, position: int = 0) -> None:
        self.text, self.position = text, position

    def substitution(self, position: int) -> tuple[syntax.Node, int]:
        """The commands from `position` up to the closing parenthesis, and the position behind it."""
        raise NotImplementedError

    def peek(self, size: int = 1) -> str:
        return self.text[self.position : self.position + size]

    def parts(self, ends: str, quoted: bool, document: bool = False) -> list[Part]:
        """Parts up to an unquoted character of `ends`, which is not consumed; without `ends`, to the end of the text.

        `quoted` is the inside of double quotes; in a here-`document` a double quote is an ordinary character.
        """
        parts: list[Part] = []
        plain: list[str] = []
        while True:
            char = self.peek()
            if not char and ends and ends is not WORD_ENDS:
                raise Incomplete("no closing quote")
            if not char or char in ends:
                break
            found = self._part(char, quoted, document)
            if isinstance(found, str):
                plain.append(found)
                continue
            if plain:
                parts.append(Literal("".join(plain), quoted))
                plain.clear()
            parts += found
        return [*parts, Literal("".join(plain), quoted)] if plain else parts

    def _part(self, char: str, quoted: bool, document: bool) -> list[Part] | str:
        """The next piece of a word, which starts with `char`: expansions and quoted text, or a plain character."""
        if char == "\\":
            return self._escape(quoted, '$`\\"' if not document else "$`\\")
        if char == "'" and not quoted:
            return [self._single_quoted()]
        if char == '"' and not document:
            return self._double_quoted()
        if char == "$":
            return self._dollar(quoted)
        if char == "`":
            return [self._backticks(quoted)]
        run = _PLAIN.match(self.text, self.position)
        self.position = run.end() if run else self.position + 1
        return run[0] if run else char

    def _escape(self, quoted: bool, special: str) -> list[Part] | str:
        char = self.text[self.position + 1 : self.position + 2]
        self.position += 2
        if char == "\n":
            return ""
        if not quoted:
            return [Literal(char or "\\", True)]
        return char if char and char in special else "\\" + char

    def _single_quoted(self) -> Literal:
        end = self.text.find("'", self.position + 1)
        if end < 0:
            raise Incomplete("no closing quote")
        value = self.text[self.position + 1 : end]
        self.position = end + 1
        return Literal(value, True)

    def _double_quoted(self) -> list[Part]:
        self.position += 1
        parts = self.parts('"', quoted=True)
        self.position += 1
        return parts or [Literal("", True)]

    def _dollar(self, quoted: bool) -> list[Part] | str:
        following = self.text[self.position + 1 : self.position + 2]
        if not quoted and (ansi := _ANSI.match(self.text, self.position)):
            self.position = ansi.end()
            return [Literal(unescaped(ansi[1])[0].partition("\0")[0], True)]
        if following in ("(", "{"):
            return [self._substitution(quoted) if following == "(" else self._braced(quoted)]
        self.position += 1
        if name := _PARAMETER.match(self.text, self.position):
            self.position = name.end()
            return [syntax.Parameter(name[0], quoted=quoted)]
        return "$"

    def _substitution(self, quoted: bool) -> Part:
        start = self.position
        if self.peek(3) == "$((" and (expression := self._arithmetic()):
            return syntax.Arithmetic(expression, quoted)
        body, self.position = self.substitution(start + 2)
        return syntax.Substitution(body, quoted)

    def _arithmetic(self) -> Word | None:
        """The expression up to `))`, which is consumed; None where a single parenthesis closes: no arithmetic."""
        self.position += 3
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
        length = _LENGTH.match(self.text, self.position)
        name = _BRACED.match(self.text, length.end() if length else self.position)
        self.position = name.end() if name else self.position
        if name and self.peek() == "}":
            self.position += 1
            return syntax.Parameter(name[0], "length" if length else "", quoted=quoted)
        op = _OPERATORS.match(self.text, self.position)
        if name is None or op is None or length:
            end = self.text.find("}", self.position) + 1
            if not end:
                raise Incomplete("no closing quote")
            raise SyntaxFault(f"{self.text[start:end]}: bad substitution")
        self.position = op.end()
        argument = make_word(self.parts(":}" if op[0] == ":" else "}", quoted and op[0][0] not in "#%"))
        second = None
        if self.peek() == ":":
            self.position += 1
            second = make_word(self.parts("}", quoted))
        self.position += 1
        return syntax.Parameter(name[0], op[0], argument, second, quoted)

    def _backticks(self, quoted: bool) -> Part:
        found = _BACKTICKS.match(self.text, self.position)
        if found is None:
            raise Incomplete("no closing quote")
        self.position = found.end()
        inner = type(self)(re.sub(r'\\([$`\\"])' if quoted else r"\\([$`\\])", r"\1", found[1]) + "\n)")
        body, end = inner.substitution(0)
        if end < len(inner.text):
            raise SyntaxFault("syntax error: unexpected ')'")
        return syntax.Substitution(body, quoted)


def make_word(parts: list[Part]) -> Word:
    """A word of these parts, with its plain value where it has one."""
    texts = []
    for part in parts:
        if not isinstance(part, Literal) or not part.quoted and any(c in "*?[~" for c in part.text):
            return Word(tuple(parts))
        texts.append(part.text)
    return Word(tuple(parts), "".join(texts))
