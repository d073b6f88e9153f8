"""Regular expressions and file patterns, matched in linear time.

Python's `re` backtracks, so one `grep` from a host could stop a phone for hours. Here a pattern becomes a
nondeterministic automaton whose deterministic states are built when a text first needs them. The match is the leftmost
longest one, as POSIX says. `spend` is called with the work done and may raise to stop it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

CHAR, SPLIT, JUMP, SAVE, ASSERT, MATCH = range(6)
Spend = Callable[[int], None]
MAX_STEPS = 10_000
"""Steps of deterministic states kept for a pattern; beyond that the table is started anew."""


@dataclass(frozen=True, slots=True)
class CharSet:
    """`ranges` are pairs of first and last character."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False
    fold: bool = False

    def has(self, char: str) -> bool:
        found = any(low <= char <= high for low, high in self.ranges)
        if not found and self.fold:
            found = any(low <= c <= high for c in (char.lower(), char.upper()) for low, high in self.ranges)
        return found != self.negated


FLOATING = -1
"""A place of states in which a match may still begin."""

Instruction = tuple[int, object, object]
"""Kind and up to two operands: CHAR set, SPLIT to two places (the preferred first), JUMP, SAVE number, ASSERT kind."""


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _holds(kind: str, before: str, after: str) -> bool:
    """An assertion between two characters; "" is the start or the end of the text."""
    if kind == "^":
        return before == ""
    if kind == "$":
        return after == ""
    left, right = before != "" and _is_word(before), after != "" and _is_word(after)
    return {"b": left != right, "B": left == right, "<": right and not left, ">": left and not right}[kind]


class _State:
    """A deterministic state: the places of the program, the character before, and the steps known so far."""

    __slots__ = ("before", "places", "steps")

    def __init__(self, places: frozenset[int], before: str) -> None:
        self.places, self.before = places, before
        self.steps: dict[str, tuple[_State | None, bool]] = {}


class Pattern:
    """A compiled pattern. `literal` is its text where it stands for nothing but itself."""

    def __init__(self, program: list[Instruction], literal: str | None = None) -> None:
        self.program, self.literal = program, literal
        self._asserts = any(i[0] == ASSERT for i in program)
        self._states: dict[tuple[frozenset[int], str], _State] = {}
        self._known_steps = 0

    def matches(self, text: str, spend: Spend) -> bool:
        """Whether it matches anywhere in the text."""
        if self.literal is not None:
            return self.literal in text
        return next(self._accepts(text, 0, spend, floating=True), None) is not None

    def full(self, text: str, spend: Spend) -> bool:
        """Whether it matches the whole text."""
        return self.literal == text if self.literal is not None else len(text) in self.ends(text, spend)

    def ends(self, text: str, spend: Spend, start: int = 0) -> list[int]:
        """Where matches that begin at `start` end, the shortest first."""
        return list(self._accepts(text, start, spend))

    def search(self, text: str, spend: Spend, start: int = 0) -> tuple[int, int] | None:
        """The leftmost longest match from `start` on."""
        if self.literal:
            at = text.find(self.literal, start)
            return None if at < 0 else (at, at + len(self.literal))
        for begin in range(start, len(text) + 1):
            if begin & 15 == 0:
                spend(1)
            end = -1
            for end in self._accepts(text, begin, spend):  # noqa: B007
                pass
            if end >= 0:
                return begin, end
        return None

    def _accepts(self, text: str, start: int, spend: Spend, floating: bool = False) -> Iterator[int]:
        """The ends of matches that begin at `start`, or anywhere from there on."""
        places = frozenset((FLOATING if floating else 0,))
        state: _State | None = self._state(places, text[start - 1] if start and self._asserts else "")
        length = len(text)
        for position in range(start, length + 1):
            assert state is not None
            char = text[position] if position < length else ""
            step = state.steps.get(char)
            if step is None:
                spend(1 + len(state.places) // 8)
                step = self._step(state, char)
            state, accepted = step
            if accepted:
                yield position
            if state is None:
                return
            if position & 63 == 63:
                spend(1)

    def _state(self, places: frozenset[int], before: str) -> _State:
        """Phones of one process share patterns; the dictionary's own operations are all that threads need."""
        if self._known_steps > MAX_STEPS:
            self._known_steps = 0
            self._states = {}
        return self._states.setdefault((places, before), _State(places, before))

    def _step(self, state: _State, char: str) -> tuple[_State | None, bool]:
        """The state after `char`, None when no match is possible any more, and whether one ends before `char`."""
        closed, accepted = self._closure(state.places, state.before, char)
        following = {place + 1 for place in closed if char and self.program[place][1].has(char)}
        if char and FLOATING in state.places:
            following.add(FLOATING)
        after = self._state(frozenset(following), char if self._asserts else "") if following else None
        self._known_steps += 1
        state.steps[char] = after, accepted
        return after, accepted

    def _closure(self, places: frozenset[int], before: str, after: str) -> tuple[set[int], bool]:
        """The CHAR instructions that can be reached without taking a character, and whether MATCH can."""
        seen, stack, closed, accepted = set(), list(places), set(), False
        while stack:
            place = stack.pop()
            if place in seen:
                continue
            seen.add(place)
            if place == FLOATING:
                stack.append(0)
                continue
            kind, one, two = self.program[place]
            if kind == CHAR:
                closed.add(place)
            elif kind == MATCH:
                accepted = True
            elif kind == SPLIT:
                stack += (one, two)
            elif kind == JUMP:
                stack.append(one)
            elif kind == SAVE or _holds(one, before, after):
                stack.append(place + 1)
        return closed, accepted

    def groups(self, text: str, begin: int, end: int, spend: Spend) -> list[str]:
        """The texts of the groups of the match `begin`..`end`; group 0 is the match. "" for a group not in it."""
        stack: list[tuple[int, int, tuple[tuple[int, int], ...]]] = [(0, begin, ())]
        failed: set[tuple[int, int]] = set()
        saves: dict[int, int] = {}
        while stack:
            place, at, saved = stack.pop()
            if (place, at) in failed:
                continue
            failed.add((place, at))
            if len(failed) & 7 == 0:
                spend(1)
            kind, one, two = self.program[place]
            if kind == MATCH and at == end:
                saves = dict(saved)
                break
            if kind == CHAR and at < end and one.has(text[at]):
                stack.append((place + 1, at + 1, saved))
            elif kind == SPLIT:
                stack += ((two, at, saved), (one, at, saved))
            elif kind == JUMP:
                stack.append((one, at, saved))
            elif kind == SAVE:
                stack.append((place + 1, at, (*(s for s in saved if s[0] != one), (one, at))))
            elif kind == ASSERT and _holds(one, text[at - 1] if at else "", text[at] if at < len(text) else ""):
                stack.append((place + 1, at, saved))
        spans = [(saves.get(2 * n, 0), saves.get(2 * n + 1, 0)) for n in range(1, 10)]
        return [text[begin:end], *(text[low:high] for low, high in spans)]


@lru_cache(maxsize=64)
def compiled(source: str, extended: bool = False, fold: bool = False, fixed: bool = False) -> Pattern:
    """A regular expression of POSIX, basic or extended. `RegexFault` for a bad one."""
    from envs.phone.shell.regex_parser import RegexParser, program_of

    tree = RegexParser(source, extended, fold).literal() if fixed else RegexParser(source, extended, fold).parse()
    return program_of(tree)


@lru_cache(maxsize=64)
def glob(source: str, fold: bool = False, reverse: bool = False) -> Pattern:
    """A file name pattern; a backslash quotes. `reverse` matches texts from behind."""
    from envs.phone.shell.regex_parser import glob_tree, program_of, reversed_tree

    tree = glob_tree(source, fold)
    return program_of(reversed_tree(tree) if reverse else tree)
