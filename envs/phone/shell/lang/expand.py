"""Expansions: words of the script become arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from envs.phone.shell.files import normal
from envs.phone.shell.lang.arith import Evaluator
from envs.phone.shell.lang.nodes import Arithmetic, Literal, Node, Parameter, Part, Word
from envs.phone.shell.lang.parser import as_assignment
from envs.phone.shell.lang.state import MAX_WORD, Budget, ShellFault, State
from envs.phone.shell.regex import glob, trimmed

Piece = tuple[str, bool]
"""Text, and whether it was quoted."""
Folders = dict[str, list[str]]
"""The names in every folder of the phone."""
BLANKS = " \t\n"
_GLOB = re.compile(r"[*?\[]")
_UNQUOTED_GLOB = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]")
_SPECIAL_IN_PATTERN = re.compile(r"([*?\[\]\\!^-])")


class _Fields:
    """Collects the arguments that a word becomes."""

    def __init__(self) -> None:
        self.done: list[list[Piece]] = []
        self.open: list[Piece] | None = None

    def add(self, text: str, quoted: bool) -> None:
        self.open = self.open or []
        self.open.append((text, quoted))

    def cut(self) -> None:
        if self.open is not None:
            self.done.append(self.open)
            self.open = None

    def split(self, text: str, separators: str) -> None:
        """Adds the value of an unquoted expansion, cut at the separators of IFS."""
        if not separators:
            self.add(text, False)
            return
        white = re.escape("".join(c for c in separators if c in BLANKS))
        other = re.escape("".join(c for c in separators if c not in BLANKS))
        space = f"[{white}]" if white else "(?!)"
        cut = f"{space}*([{other}]){space}*|({space}+)" if other else f"()({space}+)"
        at = 0
        for found in re.finditer(cut, text):
            if found.start() > at:
                self.add(text[at : found.start()], False)
            if found[1] and self.open is None:
                self.add("", True)
            self.cut()
            at = found.end()
        if at < len(text):
            self.add(text[at:], False)


class Expander:
    """`tree` lists the folders, `substitute` runs a command substitution and gives its output, `special` knows `$?`."""

    def __init__(
        self,
        state: State,
        budget: Budget,
        tree: Callable[[], Folders],
        substitute: Callable[[Sequence[Node]], str],
        special: Callable[[str], str | None],
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
                found += self._argument(word)
        self._budget.spend(len(found) >> 1)
        return found

    def text(self, word: Word) -> str:
        """One string: no splitting, no file names."""
        return self._joined(self._pieces(word)) if word.plain is None else word.plain

    def pattern(self, word: Word) -> str:
        """A pattern in which a backslash keeps what was quoted from being special."""
        return _as_pattern(self._pieces(word))

    def arithmetic(self, word: Word) -> int:
        """`ArithmeticFault` where the expression has no value."""
        return Evaluator(lambda name: self._lookup(name) or "", self._state.assign).value(self.text(word))

    # --- words -------------------------------------------------------------------------------------------------

    def _argument(self, word: Word) -> list[str]:
        fields = _Fields()
        self._add(word.parts, fields, self._state.variables.get("IFS", BLANKS))
        fields.cut()
        found: list[str] = []
        for pieces in fields.done:
            text = self._joined(pieces)
            names: list[str] = []
            if "noglob" not in self._state.options and any(not q and _GLOB.search(t) for t, q in pieces):
                names = self._names(_as_pattern(pieces))
            found += names or [text]
        return found

    def _pieces(self, word: Word) -> list[Piece]:
        fields = _Fields()
        self._add(word.parts, fields, None)
        pieces = [piece for field in [*fields.done, fields.open or []] for piece in [*field, (" ", True)]]
        return pieces[:-1]

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
            elif isinstance(part, Arithmetic):
                self._value(str(self.arithmetic(part.expression)), part.quoted, fields, separators)
            else:
                self._value(self._substitute(part.script.lines).rstrip("\n"), part.quoted, fields, separators)

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
        missing = value is None or value == "" and part.op != op and op != ""
        if op in ("-", "+", "=", "?") and part.argument is not None:
            if missing == (op == "+"):
                value = "" if op == "+" else value
            elif op in ("-", "+"):
                self._add(part.argument.parts, fields, None if part.quoted else separators, inner=True)
                return
            else:
                value = self._otherwise(part.name, op, part.argument)
        elif value is None and "nounset" in self._state.options:
            raise ShellFault(f"{part.name}: parameter not set")
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
        if part.argument is None or part.op not in ("#", "##", "%", "%%", ":"):
            return value
        if part.op != ":":
            return trimmed(value, part.op, self.pattern(part.argument))
        offset = self.arithmetic(part.argument)
        start = offset if offset >= 0 else max(0, len(value) + offset) if -offset <= len(value) else len(value)
        length = self.arithmetic(part.second) if part.second else len(value)
        return value[start : start + length if length >= 0 else len(value) + length]

    def _all(self, part: Parameter, fields: _Fields, separators: str | None) -> None:
        """`$@` and `$*`."""
        values = self._state.parameters
        if part.op:
            op = part.op.removeprefix(":")
            missing = not values or part.op != op and not "".join(values)
            if op in ("-", "+") and part.argument is not None and missing == (op == "-"):
                self._add(part.argument.parts, fields, None if part.quoted else separators, inner=True)
                return
            if op == "+":
                return
            raise ShellFault(f"${{{part.name}{part.op}...}}: bad substitution")
        if part.name == "*" and (part.quoted or separators is None):
            fields.add(self._state.variables.get("IFS", BLANKS)[:1].join(values), part.quoted)
            return
        for i, value in enumerate(values):
            if i:
                fields.cut()
            if part.quoted or separators is None:
                fields.add(value, part.quoted)
            else:
                fields.split(value, separators)

    def _lookup(self, name: str) -> str | None:
        if name.isdigit():
            number = int(name[:9])
            if number == 0:
                return self._state.name
            return self._state.parameters[number - 1] if number <= len(self._state.parameters) else None
        return self._state.variables[name] if name in self._state.variables else self._special(name)

    # --- file names --------------------------------------------------------------------------------------------

    def _names(self, pattern: str) -> list[str]:
        """The paths that a pattern matches, sorted. A leading dot must be matched by a dot."""
        found, parts, folders = ["/"] if pattern.startswith("/") else [""], pattern.split("/"), self._tree()
        for i, part in enumerate(parts):
            last = i == len(parts) - 1
            if part or last:
                found = [name for base in found for name in self._inside(folders, base, part, last)]
        return sorted(found)

    def _inside(self, folders: Folders, base: str, part: str, last: bool) -> list[str]:
        folder = normal(base if base.startswith("/") else f"{self._state.cwd}/{base}")
        inside, end = folders.get(folder, []), "" if last else "/"
        self._budget.spend(1 + (len(inside) >> 3))
        if part == "":
            return [base] if folder in folders else []
        if not _UNQUOTED_GLOB.search(part):
            name = re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL)
            path = normal(f"{folder}/{name}")
            # A folder on the way may be one that only exists as part of another name of a folder, such as /storage.
            exists = not last or path in folders or path.rpartition("/")[2] in folders.get(folder, ())
            return [base + name + end] if exists else []
        matches = glob(part).fullmatch
        return [
            base + name + end
            for name in inside
            if (part.startswith((".", "\\.")) or not name.startswith("."))
            and matches(name)
            and (last or normal(f"{folder}/{name}") in folders)
        ]


def _as_pattern(pieces: list[Piece]) -> str:
    return "".join(_SPECIAL_IN_PATTERN.sub(r"\\\1", text) if quoted else text for text, quoted in pieces)
