"""Parses regular expressions and file patterns into trees, and trees into programs for `regex.Pattern`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envs.phone.shell.regex import ASSERT, CHAR, JUMP, MATCH, SAVE, SPLIT, CharSet, Instruction, Pattern

MAX_PROGRAM = 4000
MAX_REPEAT = 255
MAX_GROUPS_DEEP = 40
_CLASSES = {
    "alpha": "AZaz",
    "digit": "09",
    "alnum": "AZaz09",
    "upper": "AZ",
    "lower": "az",
    "space": "  \t\r",
    "blank": "  \t\t",
    "punct": "!/:@[`{~",
    "xdigit": "09AFaf",
    "cntrl": "\x00\x1f\x7f\x7f",
    "print": " ~",
    "graph": "!~",
}
_ANY = CharSet((("\n", "\n"),), negated=True)
_EVERY = CharSet((), negated=True)
_WORD = (("A", "Z"), ("a", "z"), ("0", "9"), ("_", "_"))
_SPACE = ((" ", " "), ("\t", "\r"))
_ESCAPES = {
    "w": CharSet(_WORD),
    "W": CharSet(_WORD, negated=True),
    "s": CharSet(_SPACE),
    "S": CharSet(_SPACE, negated=True),
}
_BOUNDS = re.compile(r"(\d*)(,?)(\d*)(\\?)\}")


class RegexFault(ValueError):
    """The regular expression is not one, or uses what is not supported."""


@dataclass(frozen=True, slots=True)
class Char:
    set: CharSet


@dataclass(frozen=True, slots=True)
class Assertion:
    kind: str


@dataclass(frozen=True, slots=True)
class Concatenation:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    options: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`most` is None where there is no end."""

    body: Tree
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Group:
    number: int
    body: Tree


Tree = Char | Assertion | Concatenation | Alternation | Repeat | Group


class RegexParser:
    def __init__(self, source: str, extended: bool, fold: bool) -> None:
        self.source, self.extended, self.fold = source, extended, fold
        self.position = self._groups = self._depth = 0

    def literal(self) -> Tree:
        return Concatenation(tuple(self._char(c) for c in self.source))

    def parse(self) -> Tree:
        tree = self._alternation()
        if self.position < len(self.source):
            raise RegexFault("Unmatched ) or \\)")
        return tree

    def _char(self, char: str) -> Char:
        return Char(CharSet(((char, char),), fold=self.fold and char.lower() != char.upper()))

    def _operator(self, char: str) -> bool:
        """Takes an operator, which is spelled with a backslash in a basic expression."""
        spelled = char if self.extended else "\\" + char
        if not self.source.startswith(spelled, self.position):
            return False
        self.position += len(spelled)
        return True

    def _alternation(self) -> Tree:
        self._depth += 1
        if self._depth > MAX_GROUPS_DEEP:
            raise RegexFault("Regular expression too big")
        options = [self._concatenation()]
        while self._operator("|"):
            options.append(self._concatenation())
        self._depth -= 1
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def _at_end(self) -> bool:
        ends = ("|", ")") if self.extended else ("\\|", "\\)")
        if self._depth == 1 and self.extended:
            ends = ("|",)
        return self.position >= len(self.source) or self.source.startswith(ends, self.position)

    def _concatenation(self) -> Tree:
        parts: list[Tree] = []
        while not self._at_end():
            atom = self._atom(first=not parts)
            parts.append(self._repeated(atom) if not isinstance(atom, Assertion) or self.extended else atom)
        return Concatenation(tuple(parts))

    def _repeated(self, atom: Tree) -> Tree:
        while True:
            if self.source.startswith("*", self.position):
                self.position += 1
                atom = Repeat(atom, 0, None)
            elif self._operator("+"):
                atom = Repeat(atom, 1, None)
            elif self._operator("?"):
                atom = Repeat(atom, 0, 1)
            elif self._operator("{"):
                atom = self._bounds(atom)
            else:
                return atom

    def _bounds(self, atom: Tree) -> Tree:
        found = _BOUNDS.match(self.source, self.position)
        if found is None or bool(found[4]) == self.extended or not (found[1] or found[2]):
            raise RegexFault("Invalid content of \\{\\}")
        self.position = found.end()
        least = int(found[1] or 0)
        most = int(found[3]) if found[3] else None if found[2] else least
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise RegexFault("Invalid content of \\{\\}")
        return Repeat(atom, least, most)

    def _atom(self, first: bool) -> Tree:
        char = self.source[self.position]
        if self._operator("("):
            self._groups += 1
            number = self._groups
            body = self._alternation()
            if not self._operator(")"):
                raise RegexFault("Unmatched ( or \\(")
            return Group(number, body)
        self.position += 1
        if char == "[":
            return self._bracket()
        if char == ".":
            return Char(_ANY)
        if char == "^" and (self.extended or first):
            return Assertion("^")
        if char == "$" and (self.extended or self._at_end()):
            return Assertion("$")
        if char == "\\":
            return self._escape()
        if char == "*" and not (first or self.extended):
            raise RegexFault("Invalid preceding regular expression")
        return self._char(char)

    def _escape(self) -> Tree:
        if self.position >= len(self.source):
            raise RegexFault("Trailing backslash")
        char = self.source[self.position]
        self.position += 1
        if char in "bB<>":
            return Assertion(char)
        if char in _ESCAPES:
            return Char(_ESCAPES[char])
        if char.isdigit() and char != "0":
            raise RegexFault("back references are not supported")
        return self._char({"n": "\n", "t": "\t"}.get(char, char))

    def _bracket(self) -> Tree:
        found, end = bracket(self.source, self.position, "^", self.fold, escapes=False)
        if found is None:
            raise RegexFault("Unmatched [, [^, [:, [., or [=")
        self.position = end
        return found


def bracket(source: str, start: int, negation: str, fold: bool, escapes: bool) -> tuple[Char | None, int]:
    """The set whose `[` stands before `start`, and the place behind it; None where it is not closed."""
    at, ranges = start, []
    negated = source[at : at + 1] != "" and source[at : at + 1] in negation
    at += negated
    first = at
    while True:
        char = source[at : at + 1]
        if not char:
            return None, start
        if char == "]" and at > first:
            return Char(CharSet(tuple(ranges), negated, fold)), at + 1
        if source.startswith("[:", at) and (end := source.find(":]", at)) > 0:
            pairs = _CLASSES.get(source[at + 2 : end])
            if pairs is None:
                raise RegexFault("Invalid character class name")
            ranges += [(pairs[i], pairs[i + 1]) for i in range(0, len(pairs), 2)]
            at = end + 2
            continue
        if char == "\\" and escapes and at + 1 < len(source):
            at += 1
            char = source[at]
        at += 1
        high = source[at + 1 : at + 2]
        if source[at : at + 1] == "-" and high not in ("", "]"):
            at += 2
            if high == "\\" and escapes and at < len(source):
                high = source[at]
                at += 1
            ranges.append((char, high))
        else:
            ranges.append((char, char))


def glob_tree(source: str, fold: bool) -> Tree:
    parts: list[Tree] = []
    at = 0
    while at < len(source):
        char = source[at]
        at += 1
        if char == "*":
            if not (parts and isinstance(parts[-1], Repeat)):
                parts.append(Repeat(Char(_EVERY), 0, None))
            continue
        if char == "[":
            try:
                found, end = bracket(source, at, "!^", fold, escapes=True)
            except RegexFault:
                found = None
            if found is not None:
                parts.append(found)
                at = end
                continue
        if char == "\\" and at < len(source):
            char = source[at]
            at += 1
        elif char == "?":
            parts.append(Char(_EVERY))
            continue
        parts.append(Char(CharSet(((char, char),), fold=fold and char.lower() != char.upper())))
    return Concatenation(tuple(parts))


def reversed_tree(tree: Tree) -> Tree:
    """Of a file pattern, which is flat."""
    assert isinstance(tree, Concatenation)
    return Concatenation(tree.parts[::-1])


def program_of(tree: Tree) -> Pattern:
    program: list[Instruction] = []
    _emit(tree, program)
    program.append((MATCH, None, None))
    return Pattern(program, _literal(tree))


def _literal(tree: Tree) -> str | None:
    if not isinstance(tree, Concatenation):
        return None
    texts = []
    for part in tree.parts:
        if not isinstance(part, Char) or part.set.negated or part.set.fold or len(part.set.ranges) != 1:
            return None
        low, high = part.set.ranges[0]
        if low != high:
            return None
        texts.append(low)
    return "".join(texts)


def _emit(tree: Tree, program: list[Instruction]) -> None:
    if len(program) > MAX_PROGRAM:
        raise RegexFault("Regular expression too big")
    if isinstance(tree, Char):
        program.append((CHAR, tree.set, None))
    elif isinstance(tree, Assertion):
        program.append((ASSERT, tree.kind, None))
    elif isinstance(tree, Concatenation):
        for part in tree.parts:
            _emit(part, program)
    elif isinstance(tree, Group):
        program.append((SAVE, 2 * tree.number, None))
        _emit(tree.body, program)
        program.append((SAVE, 2 * tree.number + 1, None))
    elif isinstance(tree, Alternation):
        _emit_alternation(tree, program)
    else:
        _emit_repeat(tree, program)


def _emit_alternation(tree: Alternation, program: list[Instruction]) -> None:
    jumps = []
    for option in tree.options[:-1]:
        split = len(program)
        program.append((SPLIT, split + 1, None))
        _emit(option, program)
        jumps.append(len(program))
        program.append((JUMP, None, None))
        program[split] = (SPLIT, split + 1, len(program))
    _emit(tree.options[-1], program)
    for jump in jumps:
        program[jump] = (JUMP, len(program), None)


def _emit_repeat(tree: Repeat, program: list[Instruction]) -> None:
    for _ in range(tree.least):
        _emit(tree.body, program)
    if tree.most is None:
        split = len(program)
        program.append((SPLIT, None, None))
        _emit(tree.body, program)
        program.append((JUMP, split, None))
        program[split] = (SPLIT, split + 1, len(program))
        return
    splits = []
    for _ in range(tree.most - tree.least):
        splits.append(len(program))
        program.append((SPLIT, None, None))
        _emit(tree.body, program)
    for split in splits:
        program[split] = (SPLIT, split + 1, len(program))
