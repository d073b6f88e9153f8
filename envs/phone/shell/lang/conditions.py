"""`test` and `[`."""

from __future__ import annotations

import operator
import posixpath
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING

from envs.phone.shell import files
from envs.phone.shell.lang.arith import COMPARISONS, ArithmeticFault, Evaluator
from envs.phone.shell.lang.state import ShellFault

if TYPE_CHECKING:
    from envs.phone.shell.lang.interpret import Interpreter

_NUMBERS = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}
_TEXTS = {"=": operator.eq, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt}
_BINARY = frozenset((*_NUMBERS, *_TEXTS))
_UNARY = frozenset("abcdefghkLnoprsStuwxzOG")

_MODES: dict[str, Callable[[int], object]] = {
    **{"f": stat.S_ISREG, "d": stat.S_ISDIR, "c": stat.S_ISCHR, "x": lambda mode: mode & 0o111},
}


class Wrong(Exception):
    """The words are no expression."""


def bracket(shell: Interpreter, words: list[str]) -> int:
    if words[-1:] != ["]"]:
        shell.complain("[: missing ]")
        return 2
    return test(shell, words[:-1], "[")


def test(shell: Interpreter, words: list[str], command: str = "test") -> int:
    shell.flush()
    try:
        return int(not Condition(shell, words).value())
    except (Wrong, ArithmeticFault) as wrong:
        shell.complain(f"{command}: {wrong}")
        return 2
    except RecursionError:
        raise ShellFault(f"{command}: expression too complex", 2) from None


class Condition:
    """Reads the expression; POSIX's rules by the number of words come first, as words may look like operators."""

    def __init__(self, shell: Interpreter, words: list[str]) -> None:
        self._shell, self._words, self._at = shell, words, 0

    def value(self) -> bool:
        words = self._words
        if not words:
            return False
        if len(words) == 1:
            return words[0] != ""
        if len(words) == 2 and words[0] == "!":
            return words[1] == ""
        if len(words) == 3 and words[1] in _BINARY:
            return self._binary(*words)
        if len(words) == 4 and words[0] == "!" and words[2] in _BINARY:
            return not self._binary(*words[1:])
        found = self._or()
        if self._at < len(words):
            raise Wrong(f"{words[self._at]}: unexpected operator/operand")
        return found

    def _peek(self, ahead: int = 0) -> str | None:
        at = self._at + ahead
        return self._words[at] if at < len(self._words) else None

    def _next(self) -> str:
        word = self._peek()
        if word is None:
            raise Wrong("missing argument")
        self._at += 1
        return word

    def _or(self) -> bool:
        groups = [self._not()]
        while (symbol := self._peek()) in ("-a", "-o"):
            self._at += 1
            if symbol == "-o":
                groups.append(self._not())
            else:
                groups[-1] = self._not() and groups[-1]
        return any(groups)

    def _not(self) -> bool:
        if self._peek() == "!" and self._peek(1) is not None:
            self._at += 1
            return not self._not()
        return self._primary()

    def _primary(self) -> bool:
        word = self._next()
        symbol = self._peek()
        if symbol in _BINARY:
            self._at += 1
            return self._binary(word, str(symbol), self._next())
        if word == "(" and symbol is not None:
            found = self._or()
            if self._next() != ")":
                raise Wrong("missing )")
            return found
        if len(word) == 2 and word[0] == "-" and word[1] in _UNARY and symbol not in (None, "-a", "-o"):
            return self._unary(word[1], self._next())
        return word != ""

    def _binary(self, left: str, symbol: str, right: str) -> bool:
        if symbol in _NUMBERS:
            return bool(COMPARISONS[_NUMBERS[symbol]](self._number(left), self._number(right)))
        return _TEXTS[symbol](left, right)

    def _number(self, word: str) -> int:
        variables = self._shell.state.variables
        return Evaluator(lambda name: variables.get(name, ""), self._shell.state.assign).value(word)

    def _unary(self, flag: str, word: str) -> bool:
        if flag in "nz":
            return (word != "") == (flag == "n")
        if flag == "o":
            return word in self._shell.state.options
        if flag == "t":
            return False
        phone, path = self._shell.phone, files.normal(posixpath.join(self._shell.state.cwd, word))
        if word == "" or not files.exists(phone, path):
            return False
        mode = files.attributes(phone, path).mode
        if flag in _MODES:
            return bool(_MODES[flag](mode))
        if flag == "s":
            return files.size(phone, path) > 0
        if flag == "w":
            return not files.read_only(path) or path in files.DEVICES
        return flag in "aerOG"
