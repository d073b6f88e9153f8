"""`test` and `[`."""

from __future__ import annotations

import posixpath
import stat
from typing import TYPE_CHECKING

from envs.phone.shell import files
from envs.phone.shell.lang.arith import ArithmeticFault, Evaluator
from envs.phone.shell.lang.state import ShellFault

if TYPE_CHECKING:
    from envs.phone.shell.lang.interpret import Interpreter

_NUMBERS = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}
_TEXTS = ("=", "==", "!=", "<", ">")
_FILES = ("-nt", "-ot", "-ef")
BINARY = frozenset((*_NUMBERS, *_TEXTS, *_FILES))
UNARY = frozenset("abcdefghkLnoprsStuwxzOG")


class Wrong(Exception):
    """The words are no expression."""


def test(shell: Interpreter, words: list[str]) -> int:
    return _run(shell, "test", words)


def bracket(shell: Interpreter, words: list[str]) -> int:
    if words[-1:] != ["]"]:
        shell.complain("[: missing ]")
        return 2
    return _run(shell, "[", words[:-1])


def _run(shell: Interpreter, command: str, words: list[str]) -> int:
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
        if len(words) == 3 and self._is_binary(words[1]):
            return self.binary(*words)
        if len(words) == 4 and words[0] == "!" and self._is_binary(words[2]):
            return not self.binary(*words[1:])
        found = self._or()
        if self._at < len(words):
            raise Wrong(f"{words[self._at]}: unexpected operator/operand")
        return found

    def _is_binary(self, word: str) -> bool:
        return word in BINARY

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
        found = self._and()
        while self._peek() == "-o":
            self._at += 1
            found = self._and() or found
        return found

    def _and(self) -> bool:
        found = self._not()
        while self._peek() == "-a":
            self._at += 1
            found = self._not() and found
        return found

    def _not(self) -> bool:
        if self._peek() == "!" and self._peek(1) is not None:
            self._at += 1
            return not self._not()
        return self._primary()

    def _primary(self) -> bool:
        word = self._next()
        operator = self._peek()
        if operator is not None and self._is_binary(operator):
            self._at += 1
            return self.binary(word, operator, self._next())
        if word == "(" and operator is not None:
            found = self._or()
            if self._next() != ")":
                raise Wrong("missing )")
            return found
        if len(word) == 2 and word[0] == "-" and word[1] in UNARY and operator not in (None, "-a", "-o"):
            return self.unary(word[1], self._next())
        return word != ""

    def binary(self, left: str, operator: str, right: str) -> bool:
        if operator in _NUMBERS:
            one, two = self._number(left), self._number(right)
            return {
                "==": one == two,
                "!=": one != two,
                "<": one < two,
                "<=": one <= two,
                ">": one > two,
                ">=": one >= two,
            }[_NUMBERS[operator]]
        if operator in _FILES:
            return self._files(left, operator, right)
        return {"=": left == right, "==": left == right, "!=": left != right, "<": left < right, ">": left > right}[
            operator
        ]

    def _number(self, word: str) -> int:
        variables = self._shell.state.variables
        return Evaluator(lambda name: variables.get(name, ""), self._shell.state.assign).value(word)

    def _path(self, word: str) -> str:
        return files.normal(posixpath.join(self._shell.state.cwd, word))

    def _files(self, left: str, operator: str, right: str) -> bool:
        phone = self._shell.phone
        times = [
            files.attributes(phone, path).mtime if files.exists(phone, path) else None
            for path in (self._path(left), self._path(right))
        ]
        if operator == "-ef":
            return None not in times and self._path(left) == self._path(right)
        one, two = times if operator == "-nt" else times[::-1]
        return one is not None and (two is None or one > two)

    def unary(self, flag: str, word: str) -> bool:
        if flag in "nz":
            return (word != "") == (flag == "n")
        if flag == "o":
            return word in self._shell.state.options
        if flag == "t":
            return False
        phone, path = self._shell.phone, self._path(word)
        if word == "" or not files.exists(phone, path):
            return False
        attributes = files.attributes(phone, path)
        if flag in "fdcx":
            return {"f": stat.S_ISREG, "d": stat.S_ISDIR, "c": stat.S_ISCHR, "x": lambda mode: bool(mode & 0o111)}[
                flag
            ](attributes.mode)
        if flag == "s":
            return files.size(phone, path) > 0
        if flag == "u":
            return bool(attributes.mode & stat.S_ISUID)
        if flag == "g":
            return bool(attributes.mode & stat.S_ISGID)
        if flag == "w":
            return not files.read_only(path) or path in files.DEVICES
        return flag in "aerOG"
