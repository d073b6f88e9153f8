"""Expansion of the words of a script into arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell.command import Failure
from mobilerl.envs.phone.shell.files import exists, folders
from mobilerl.envs.phone.shell.lang.state import MAX_WORD, Budget, State
from mobilerl.envs.phone.shell.lang.syntax import Literal, Node, Parameter, Word
from mobilerl.envs.phone.shell.regex import glob

Piece = tuple[str, bool]
"""Text, and whether it was quoted."""
_BLANKS = re.compile(r"[ \t\n]+")
_GLOB = re.compile(r"[*?\[]")
_QUOTED = re.compile(r"\[([*?\[])\]")


class Expander:
    """Expands words with the variables of one shell. `substitute` runs a command and returns its output."""

    def __init__(self, phone: Phone, state: State, budget: Budget, substitute: Callable[[Node], str]) -> None:
        self._phone, self._state, self._budget, self._substitute = phone, state, budget, substitute

    def arguments(self, words: Sequence[Word]) -> list[str]:
        """All expansions: values are split at blanks, and patterns are replaced by file names."""
        found: list[str] = []
        for word in words:
            for field in self._fields(word):
                is_pattern = any(not quoted and _GLOB.search(text) for text, quoted in field)
                found += (self._names(_as_pattern(field)) if is_pattern else []) or [self._join(field)]
        self._budget.spend(len(found) >> 1)
        return found

    def text(self, word: Word) -> str:
        """Expands a word to one string, without splitting and file names."""
        return self._join([(text, quoted) for text, quoted, _ in self._pieces(word)])

    def _join(self, pieces: list[Piece]) -> str:
        size = sum(len(text) for text, _ in pieces)
        if size > MAX_WORD:
            raise Failure("argument too long")
        self._budget.spend(size >> 10)
        return "".join([text for text, _ in pieces])

    def _fields(self, word: Word) -> list[list[Piece]]:
        """The arguments that a word expands to, each as a list of pieces."""
        fields: list[list[Piece]] = []
        is_open = False
        for text, quoted, splits in self._pieces(word):
            for i, chunk in enumerate(_BLANKS.split(text) if splits else [text]):
                is_open = is_open and i == 0
                if splits and not chunk:
                    continue
                if not is_open:
                    fields.append([])
                    is_open = True
                fields[-1].append((chunk, quoted))
        return fields

    def _pieces(self, word: Word) -> Iterator[tuple[str, bool, bool]]:
        """Yields text, whether it was quoted, and whether it is split at blanks."""
        for i, part in enumerate(word):
            if isinstance(part, Literal):
                text = part.text
                if i == 0 and not part.quoted and (text.startswith("~/") or text == "~" and len(word) == 1):
                    text = self._state.variables.get("HOME", "~") + text[1:]
                yield text, part.quoted, False
                continue
            if isinstance(part, Parameter):
                value = self._state.get(part.name) or ""
            else:
                value = self._substitute(part.body).rstrip("\n")
            self._budget.spend(len(value) >> (10 if part.quoted else 5))
            yield value, part.quoted, not part.quoted

    # --- file names --------------------------------------------------------------------------------------------

    def _names(self, pattern: str) -> list[str]:
        """The paths that a pattern matches, sorted."""
        self._budget.spend(len(self._phone.files) >> 4)
        names_in = folders(self._phone)
        *parents, last = pattern.split("/")
        found = [""]
        for part in parents:
            names = [base + name for base in found for name in self._matching(names_in, base, part)]
            is_pattern = _GLOB.search(part) is not None
            found = [f"{name}/" for name in names if not is_pattern or self._state.path(name) in names_in]
        found = [base + name for base in found for name in self._matching(names_in, base, last)]
        return sorted(name for name in found if self._exists(names_in, name))

    def _exists(self, names_in: dict[str, list[str]], name: str) -> bool:
        path = self._state.path(name)
        return path in names_in or not name.endswith("/") and exists(self._phone, path)

    def _matching(self, names_in: dict[str, list[str]], base: str, part: str) -> list[str]:
        """The names in the folder `base` that match one part of a pattern. Only a dot matches a leading dot."""
        if not _GLOB.search(_QUOTED.sub("", part)):
            return [_QUOTED.sub(r"\1", part)]
        inside = names_in.get(self._state.path(base), [])
        self._budget.spend(1 + (len(inside) >> 3))
        matches, hidden = glob(part).fullmatch, part.startswith(".")
        return [name for name in inside if (hidden or not name.startswith(".")) and matches(name)]


def _as_pattern(pieces: list[Piece]) -> str:
    return "".join(_GLOB.sub(r"[\g<0>]", text) if quoted else text for text, quoted in pieces)
