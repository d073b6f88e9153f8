"""`test` and `[`."""

from __future__ import annotations

import operator
import stat
from typing import TYPE_CHECKING

from envs.phone.shell import files
from envs.phone.shell.lang.arith import COMPARISONS, ArithmeticFault, evaluate

if TYPE_CHECKING:
    from envs.phone.shell.lang.interpret import Interpreter

_NUMBERS = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}
_TEXTS = {"=": operator.eq, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt}
_KINDS = {"-f": stat.S_ISREG, "-d": stat.S_ISDIR, "-c": stat.S_ISCHR, "-x": lambda mode: mode & 0o111}
_UNARY = frozenset(("-n", "-z", "-e", "-r", "-w", "-s", "-h", "-L", *_KINDS))


class BadCondition(Exception):
    """The words are not an expression."""


def bracket(shell: Interpreter, words: list[str]) -> int:
    if words[-1:] != ["]"]:
        shell.complain("[: missing ]")
        return 2
    return test(shell, words[:-1], "[")


def test(shell: Interpreter, words: list[str], command: str = "test") -> int:
    try:
        return int(not (words and _Condition(shell, words).value()))
    except (BadCondition, ArithmeticFault) as fault:
        shell.complain(f"{command}: {fault}")
    except RecursionError:
        shell.complain(f"{command}: expression too complex")
    return 2


class _Condition:
    """A word that is followed by a comparison is an operand, even if it looks like an operator."""

    def __init__(self, shell: Interpreter, words: list[str]) -> None:
        self._shell, self._words, self._at = shell, words, 0

    def value(self) -> bool:
        found = self._or()
        if self._at < len(self._words):
            raise BadCondition(f"{self._words[self._at]}: unexpected operator/operand")
        return found

    def _peek(self) -> str | None:
        return self._words[self._at] if self._at < len(self._words) else None

    def _next(self) -> str:
        word = self._peek()
        if word is None:
            raise BadCondition("missing argument")
        self._at += 1
        return word

    def _or(self) -> bool:
        groups = [self._operand()]
        while self._peek() in ("-a", "-o"):
            if self._next() == "-o":
                groups.append(self._operand())
            else:
                groups[-1] = self._operand() and groups[-1]
        return any(groups)

    def _operand(self) -> bool:
        word, symbol = self._next(), self._peek()
        if (symbol in _NUMBERS or symbol in _TEXTS) and self._at + 1 < len(self._words):
            return self._compare(word, self._next(), self._next())
        if word == "!" and symbol is not None:
            return not self._operand()
        if word == "(" and symbol is not None:
            found = self._or()
            if self._next() != ")":
                raise BadCondition("missing )")
            return found
        if word in _UNARY and symbol not in (None, "-a", "-o"):
            return self._unary(word, self._next())
        return word != ""

    def _compare(self, left: str, symbol: str, right: str) -> bool:
        if symbol in _TEXTS:
            return _TEXTS[symbol](left, right)
        state = self._shell.state
        first, second = (evaluate(word, lambda name: state.get(name) or "", state.assign) for word in (left, right))
        return bool(COMPARISONS[_NUMBERS[symbol]](first, second))

    def _unary(self, flag: str, word: str) -> bool:
        if flag in ("-n", "-z"):
            return (word != "") == (flag == "-n")
        phone, path = self._shell.phone, self._shell.state.path(word)
        if word == "" or not files.exists(phone, path):
            return False
        if flag in _KINDS:
            return bool(_KINDS[flag](files.attributes(phone, path).mode))
        if flag == "-s":
            return files.size(phone, path) > 0
        if flag == "-w":
            return not files.read_only(path) or path in files.DEVICES
        return flag in ("-e", "-r")
