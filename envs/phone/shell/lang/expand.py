"""Expansions: words of the script become arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from envs.phone.shell.files import exists
from envs.phone.shell.lang.arith import evaluate
from envs.phone.shell.lang.parser import as_assignment
from envs.phone.shell.lang.state import MAX_WORD, ShellFault
from envs.phone.shell.lang.syntax import Arithmetic, Literal, Parameter, Part, Word
from envs.phone.shell.regex import glob, trimmed

if TYPE_CHECKING:
    from envs.phone.shell.lang.interpret import Interpreter

Piece = tuple[str, bool]
"""Text, and whether it was quoted."""
BLANKS = " \t\n"
_GLOB = re.compile(r"[*?\[]")
_QUOTED = re.compile(r"\[([*?\[])\]")


def field_separator(separators: str) -> str:
    """A regular expression for what stands between two fields under this IFS, which is not empty."""
    white = re.escape("".join(c for c in separators if c in BLANKS))
    other = re.escape("".join(c for c in separators if c not in BLANKS))
    space = f"[{white}]" if white else "(?!)"
    return f"{space}*[{other}]{space}*|{space}+" if other else f"{space}+"


class _Fields:
    """Collects the arguments that a word becomes. `separators` is IFS, or None where nothing is split."""

    def __init__(self, separators: str | None) -> None:
        self.separators = separators
        self.done: list[list[Piece]] = []
        self.open: list[Piece] | None = None

    def add(self, text: str, quoted: bool) -> None:
        self.open = self.open or []
        self.open.append((text, quoted))

    def cut(self) -> None:
        if self.open is not None:
            self.done.append(self.open)
            self.open = None

    def expanded(self, text: str, quoted: bool) -> None:
        """Adds the value of an expansion, which is cut at the separators if it is not quoted."""
        if quoted or not self.separators:
            self.add(text, quoted)
            return
        at = 0
        for found in re.finditer(field_separator(self.separators), text):
            if found.start() > at:
                self.add(text[at : found.start()], False)
            if found[0].strip(BLANKS) and self.open is None:
                self.add("", True)
            self.cut()
            at = found.end()
        if at < len(text):
            self.add(text[at:], False)


class Expander:
    """Expands words with the variables of one shell."""

    def __init__(self, shell: Interpreter) -> None:
        self._shell, self._state, self._budget = shell, shell.state, shell.budget

    def arguments(self, words: Sequence[Word], declaring: bool = False) -> list[str]:
        """All expansions. With `declaring`, `name=value` is one argument and is not split."""
        found: list[str] = []
        for word in words:
            if word.plain is not None:
                found.append(word.plain)
            elif declaring and (assignment := as_assignment(word)):
                found.append(f"{assignment.name}{'+' * assignment.append}={self.text(assignment.value)}")
            else:
                found += self._argument(word)
        self._budget.spend(len(found) >> 1)
        return found

    def text(self, word: Word) -> str:
        """One string: no splitting, no file names."""
        return self._joined(self._pieces(word)) if word.plain is None else word.plain

    def pattern(self, word: Word) -> str:
        """A pattern in which quoted special characters stand between brackets."""
        return _as_pattern(self._pieces(word))

    def arithmetic(self, word: Word) -> int:
        """`ArithmeticFault` where the expression has no value."""
        return evaluate(self.text(word), lambda name: self._state.get(name) or "", self._state.assign)

    # --- words -------------------------------------------------------------------------------------------------

    def _argument(self, word: Word) -> list[str]:
        fields = _Fields(self._state.variables.get("IFS", BLANKS))
        self._add(word.parts, fields)
        fields.cut()
        found: list[str] = []
        for pieces in fields.done:
            names: list[str] = []
            if "noglob" not in self._state.options and any(not q and _GLOB.search(t) for t, q in pieces):
                names = self._names(_as_pattern(pieces))
            found += names or [self._joined(pieces)]
        return found

    def _pieces(self, word: Word) -> list[Piece]:
        fields = _Fields(None)
        self._add(word.parts, fields)
        pieces = [piece for field in [*fields.done, fields.open or []] for piece in [*field, (" ", True)]]
        return pieces[:-1]

    def _joined(self, pieces: list[Piece]) -> str:
        size = sum(len(text) for text, _ in pieces)
        if size > MAX_WORD:
            raise ShellFault("argument too long")
        self._budget.spend(size >> 10)
        return "".join([text for text, _ in pieces])

    def _add(self, parts: Sequence[Part], fields: _Fields, inner: bool = False) -> None:
        """Unquoted text of an `inner` word, as in `${x:-word}`, is split too."""
        for i, part in enumerate(parts):
            if isinstance(part, Literal):
                text = part.text
                if i == 0 and not part.quoted and (text.startswith("~/") or text == "~" and len(parts) == 1):
                    text = self._state.variables.get("HOME", "~") + text[1:]
                if inner:
                    fields.expanded(text, part.quoted)
                else:
                    fields.add(text, part.quoted)
            elif isinstance(part, Parameter):
                self._parameter(part, fields)
            elif isinstance(part, Arithmetic):
                self._value(str(self.arithmetic(part.expression)), part.quoted, fields)
            else:
                self._value(self._shell.substitute(part.body).rstrip("\n"), part.quoted, fields)

    def _value(self, value: str, quoted: bool, fields: _Fields) -> None:
        self._budget.spend(len(value) >> (10 if quoted else 5))
        fields.expanded(value, quoted)

    # --- parameters --------------------------------------------------------------------------------------------

    def _parameter(self, part: Parameter, fields: _Fields) -> None:
        everything = part.name in "@*" and part.op != "length"
        value = "".join(self._state.parameters) if everything else self._state.get(part.name)
        op = part.op.removeprefix(":")
        missing = not self._state.parameters if everything else value is None
        missing = missing or value == "" and part.op != op
        if op in ("-", "+", "=", "?") and part.argument is not None:
            if missing == (op == "+"):
                if op == "+":
                    self._value("", part.quoted, fields)
                    return
            elif op in ("-", "+"):
                separators, fields.separators = fields.separators, None if part.quoted else fields.separators
                self._add(part.argument.parts, fields, inner=True)
                fields.separators = separators
                return
            elif everything:
                raise ShellFault(f"${{{part.name}{part.op}...}}: bad substitution")
            else:
                value = self._default(part.name, op, part.argument)
        elif value is None and "nounset" in self._state.options:
            raise ShellFault(f"{part.name}: parameter not set")
        if everything:
            self._all(part, fields)
        else:
            self._value(self._operated(part, value or ""), part.quoted, fields)

    def _default(self, name: str, op: str, argument: Word) -> str:
        """`${name=argument}` and `${name?argument}` of a missing parameter."""
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
        if part.argument is None or part.op not in ("#", "##", "%", "%%", ":"):
            return value
        if part.op != ":":
            return trimmed(value, part.op, self.pattern(part.argument))
        offset = self.arithmetic(part.argument)
        start = offset if offset >= 0 else max(0, len(value) + offset) if -offset <= len(value) else len(value)
        length = self.arithmetic(part.second) if part.second else len(value)
        return value[start : start + length if length >= 0 else len(value) + length]

    def _all(self, part: Parameter, fields: _Fields) -> None:
        """`$@` and `$*`."""
        values = self._state.parameters
        if part.op in ("#", "##", "%", "%%", ":"):
            raise ShellFault(f"${{{part.name}{part.op}...}}: bad substitution")
        if part.name == "*" and (part.quoted or fields.separators is None):
            fields.add(self._state.variables.get("IFS", BLANKS)[:1].join(values), part.quoted)
            return
        for i, value in enumerate(values):
            if i:
                fields.cut()
            fields.expanded(value, part.quoted)

    # --- file names --------------------------------------------------------------------------------------------

    def _names(self, pattern: str) -> list[str]:
        """The paths that a pattern matches, sorted."""
        folders = self._shell.folders()
        *parents, last = pattern.split("/")
        found = [""]
        for part in parents:
            names = [base + name for base in found for name in self._matching(folders, base, part)]
            is_pattern = _GLOB.search(part) is not None
            found = [f"{name}/" for name in names if not is_pattern or self._state.path(name) in folders]
        found = [base + name for base in found for name in self._matching(folders, base, last)]
        return sorted(name for name in found if self._exists(folders, name))

    def _exists(self, folders: dict[str, list[str]], name: str) -> bool:
        path = self._state.path(name)
        return path in folders or not name.endswith("/") and exists(self._shell.phone, path)

    def _matching(self, folders: dict[str, list[str]], base: str, part: str) -> list[str]:
        """The names in the folder `base` that match one part of a pattern. A leading dot must be matched by a dot."""
        if not _GLOB.search(_QUOTED.sub("", part)):
            return [_QUOTED.sub(r"\1", part)]
        inside = folders.get(self._state.path(base), [])
        self._budget.spend(1 + (len(inside) >> 3))
        matches, hidden = glob(part).fullmatch, part.startswith(".")
        return [name for name in inside if (hidden or not name.startswith(".")) and matches(name)]


def _as_pattern(pieces: list[Piece]) -> str:
    return "".join(_GLOB.sub(r"[\g<0>]", text) if quoted else text for text, quoted in pieces)
