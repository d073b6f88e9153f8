"""Expansions: words of the script become arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from envs.phone.shell.lang import globbing
from envs.phone.shell.lang.arith import Evaluator
from envs.phone.shell.lang.braces import braced
from envs.phone.shell.lang.nodes import Arithmetic, Literal, Node, Parameter, Part, Word
from envs.phone.shell.lang.parser import as_assignment
from envs.phone.shell.lang.state import MAX_WORD, Budget, ShellFault, State
from envs.phone.shell.lang.trimming import replaced, substring, trimmed

Piece = tuple[str, bool]
"""Text, and whether it was quoted."""
_BLANKS = re.compile(r"[ \t\n]+")
_GLOB = re.compile(r"[*?\[]")
_SPECIAL_IN_PATTERN = re.compile(r"([*?\[\]\\!^-])")


class _Fields:
    """Collects the arguments that a word becomes."""

    def __init__(self) -> None:
        self.done: list[list[Piece]] = []
        self.open: list[Piece] | None = None

    def add(self, text: str, quoted: bool) -> None:
        if self.open is None:
            self.open = []
        self.open.append((text, quoted))

    def cut(self) -> None:
        if self.open is not None:
            self.done.append(self.open)
            self.open = None

    def split(self, text: str, separators: str) -> None:
        """Adds the value of an unquoted expansion, cut at the separators of IFS."""
        if separators == " \t\n":
            self._split_at_blanks(text)
            return
        white = "".join(c for c in separators if c in " \t\n")
        run = ""
        at = 0
        while at < len(text):
            char = text[at]
            if char not in separators:
                run += char
                at += 1
                continue
            if run:
                self.add(run, False)
                run = ""
            end = at
            while end < len(text) and text[end] in white:
                end += 1
            if end < len(text) and text[end] in separators:
                if self.open is None:
                    self.add("", True)
                end += 1
                while end < len(text) and text[end] in white:
                    end += 1
            self.cut()
            at = end
        if run:
            self.add(run, False)

    def _split_at_blanks(self, text: str) -> None:
        first, *rest = _BLANKS.split(text)
        if first:
            self.add(first, False)
        for piece in rest:
            self.cut()
            if piece:
                self.add(piece, False)


class Expander:
    """`substitute` runs a command substitution and gives its output."""

    def __init__(
        self,
        state: State,
        budget: Budget,
        tree: Callable[[], globbing.Folders],
        substitute: Callable[[Sequence[Node]], str],
        special: Callable[[str], str],
    ) -> None:
        self._state, self._budget, self._tree = state, budget, tree
        self._substitute, self._special = substitute, special

    # --- what the interpreter asks for -------------------------------------------------------------------------

    def arguments(self, words: Sequence[Word], declaring: bool = False) -> list[str]:
        """All expansions. With `declaring`, `name=value` is one argument whatever the value is."""
        found: list[str] = []
        for word in words:
            if word.plain is not None:
                found.append(word.plain)
            elif declaring and (assignment := as_assignment(word)):
                found.append(f"{assignment.name}{'+' * assignment.append}={self.text(assignment.value)}")
            else:
                for one in braced(word, self._budget):
                    found += self._argument(one)
        self._budget.spend(len(found) >> 1)
        return found

    def text(self, word: Word) -> str:
        """One string: no splitting, no file names."""
        if word.plain is not None:
            return word.plain
        return self._joined(self._pieces(word))

    def pattern(self, word: Word) -> str:
        """A pattern in which a backslash keeps what was quoted from being special."""
        return as_pattern(self._pieces(word))

    def arithmetic(self, word: Word) -> int:
        """`ArithmeticFault` where the expression has no value."""
        return Evaluator(self._number, self._state.assign).value(self.text(word))

    # --- words -------------------------------------------------------------------------------------------------

    def _argument(self, word: Word) -> list[str]:
        fields = _Fields()
        self._add(word.parts, fields, self._state.variables.get("IFS", " \t\n"))
        fields.cut()
        found: list[str] = []
        for pieces in fields.done:
            text = self._joined(pieces)
            names: list[str] = []
            if "noglob" not in self._state.options and any(not q and _GLOB.search(t) for t, q in pieces):
                names = globbing.names(self._tree(), self._state.cwd, as_pattern(pieces), self._budget.spend)
            found += names or [text]
        return found

    def _pieces(self, word: Word) -> list[Piece]:
        fields = _Fields()
        self._add(word.parts, fields, None)
        pieces = [piece for field in [*fields.done, fields.open or []] for piece in [*field, (" ", True)]]
        return pieces[:-1] if pieces else []

    def _joined(self, pieces: list[Piece]) -> str:
        size = sum(len(text) for text, _ in pieces)
        if size > MAX_WORD:
            raise ShellFault("argument too long")
        self._budget.spend(size >> 10)
        return "".join([text for text, _ in pieces])

    def _add(self, parts: Sequence[Part], fields: _Fields, separators: str | None, inner: bool = False) -> None:
        """`separators` is None where nothing is split. The text of an `inner` word, in `${x:-word}`, is split too."""
        for i, part in enumerate(parts):
            if isinstance(part, Literal):
                text = self._home(part, i == 0, len(parts) == i + 1)
                if inner and not part.quoted and separators is not None:
                    fields.split(text, separators)
                else:
                    fields.add(text, part.quoted)
            elif isinstance(part, Parameter):
                self._parameter(part, fields, separators)
            else:
                if isinstance(part, Arithmetic):
                    value = str(self.arithmetic(part.expression))
                else:
                    value = self._substitute(part.script.lines).rstrip("\n")
                self._value(value, part.quoted, fields, separators)

    def _value(self, value: str, quoted: bool, fields: _Fields, separators: str | None) -> None:
        self._budget.spend(len(value) >> (10 if quoted else 5))
        if quoted or separators is None:
            fields.add(value, quoted)
        else:
            fields.split(value, separators)

    def _home(self, part: Literal, first: bool, last: bool) -> str:
        text = part.text
        if part.quoted or not first or not text.startswith("~") or not (text[1:2] == "/" or text == "~" and last):
            return text
        return self._state.variables.get("HOME", "~") + text[1:]

    # --- parameters --------------------------------------------------------------------------------------------

    def _parameter(self, part: Parameter, fields: _Fields, separators: str | None) -> None:
        if part.name in "@*" and part.op != "length":
            self._all(part, fields, separators)
            return
        value = self._lookup(part.name)
        op = part.op.removeprefix(":")
        missing = value is None or value == "" and part.op[:1] == ":" and op != ""
        if op in ("-", "+", "=", "?") and part.argument is not None:
            if missing == (op == "+"):
                value = "" if op == "+" else value
            elif op in ("-", "+"):
                self._add(part.argument.parts, fields, None if part.quoted else separators, inner=True)
                return
            else:
                value = self._otherwise(part.name, op, part.argument)
        elif value is None:
            if "nounset" in self._state.options:
                raise ShellFault(f"{part.name}: parameter not set")
            value = ""
        self._value(self._operated(part, value or ""), part.quoted, fields, separators)

    def _otherwise(self, name: str, op: str, argument: Word) -> str:
        text = self.text(argument)
        if op == "?":
            raise ShellFault(f"{name}: {text or 'parameter null or not set'}")
        if not name.isidentifier():
            raise ShellFault(f"{name}: cannot assign")
        self._state.assign(name, text)
        return text

    def _operated(self, part: Parameter, value: str) -> str:
        if part.op == "length":
            return str(len(self._state.parameters) if part.name in "@*" else len(value))
        if part.op in ("#", "##", "%", "%%") and part.argument is not None:
            return trimmed(value, part.op, self.pattern(part.argument), self._budget.spend)
        if part.op in ("/", "//") and part.argument is not None:
            by = self.text(part.second) if part.second else ""
            return replaced(value, part.op, self.pattern(part.argument), by, self._budget.spend, MAX_WORD)
        if part.op == ":" and part.argument is not None:
            length = self.arithmetic(part.second) if part.second else None
            return substring(value, self.arithmetic(part.argument), length)
        return value

    def _all(self, part: Parameter, fields: _Fields, separators: str | None) -> None:
        """`$@` and `$*`."""
        values = self._state.parameters
        if part.op:
            op = part.op.removeprefix(":")
            missing = not values or part.op.startswith(":") and not "".join(values)
            if op in ("-", "+") and part.argument is not None and missing == (op == "-"):
                self._add(part.argument.parts, fields, None if part.quoted else separators, inner=True)
                return
            if op == "+":
                return
            raise ShellFault(f"${{{part.name}{part.op}...}}: bad substitution")
        ifs = self._state.variables.get("IFS", " \t\n")
        if part.name == "*" and (part.quoted or separators is None):
            fields.add(ifs[:1].join(values), part.quoted)
            return
        for i, value in enumerate(values):
            if i:
                fields.cut()
            if part.quoted:
                fields.add(value, True)
            elif separators is None:
                fields.add(value, False)
            else:
                fields.split(value, separators)

    def _lookup(self, name: str) -> str | None:
        if name.isdigit():
            number = int(name[:9])
            if number == 0:
                return self._state.name
            return self._state.parameters[number - 1] if number <= len(self._state.parameters) else None
        if name in self._state.variables:
            return self._state.variables[name]
        return self._special(name)

    def _number(self, name: str) -> str:
        return self._lookup(name) or ""


def as_pattern(pieces: list[Piece]) -> str:
    return "".join(_SPECIAL_IN_PATTERN.sub(r"\\\1", text) if quoted else text for text, quoted in pieces)
