"""Arithmetic as in mksh: operators of C on signed 32-bit integers."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from envs.phone.shell.command import Failure

_TOKEN = re.compile(r"\s*(\d+|[A-Za-z_]\w*|[<>=!]=|[-+*/%<>!()])", re.ASCII)
_LEVELS = ("== !=", "< <= > >=", "+ -", "* / %")
_PRECEDENCE = {symbol: level for level, symbols in enumerate(_LEVELS) for symbol in symbols.split()}
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne},
    **{"+": operator.add, "-": operator.sub, "*": operator.mul},
}
MAX_LENGTH = 4000
"""Longest expression in characters."""


def evaluate(expression: str, get: Callable[[str], str | None]) -> int:
    """The value of an expression; `get` reads variables. `Failure` where it has none."""
    try:
        if len(expression) <= MAX_LENGTH:
            return _Parser(expression, get).value()
    except RecursionError:
        pass
    raise Failure(f"{expression[:40]}: expression too complex")


def _wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


class _Parser:
    """Calculates while it reads, by precedence climbing."""

    def __init__(self, expression: str, get: Callable[[str], str | None]) -> None:
        self._expression, self._get = expression, get
        self._tokens = _TOKEN.findall(expression)
        if _TOKEN.sub("", expression).strip():
            raise self._fault("unexpected token")
        self._at = 0

    def _fault(self, message: str) -> Failure:
        return Failure(f"{self._expression}: {message}")

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1] if self._at <= len(self._tokens) else ""

    def value(self) -> int:
        found = self._binary(0) if self._tokens else 0
        if self._at < len(self._tokens):
            raise self._fault("unexpected token")
        return found

    def _binary(self, level: int) -> int:
        """Operators that bind at least as tightly as those of a level."""
        left = self._operand()
        while self._at < len(self._tokens) and (found := _PRECEDENCE.get(self._tokens[self._at], -1)) >= level:
            symbol = self._next()
            left = self._applied(symbol, left, self._binary(found + 1))
        return left

    def _applied(self, symbol: str, left: int, right: int) -> int:
        if symbol not in ("/", "%"):
            return _wrap(int(_OPERATIONS[symbol](left, right)))
        if right == 0:
            raise self._fault("zero divisor")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return _wrap(quotient if symbol == "/" else left - quotient * right)

    def _operand(self) -> int:
        token = self._next()
        if token in ("+", "-", "!"):
            value = self._operand()
            return int(not value) if token == "!" else _wrap(-value if token == "-" else value)
        if token == "(":
            value = self._binary(0)
            if self._next() != ")":
                raise self._fault("missing )")
            return value
        number = (self._get(token) or "0") if token.isidentifier() else token
        if not re.fullmatch(r"-?\d{1,400}", number, re.ASCII):
            raise self._fault("unexpected token" if token else "unexpected end of expression")
        return _wrap(int(number))
