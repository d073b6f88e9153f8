"""Arithmetic as in mksh: C's operators on signed 32-bit integers."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

Value = Callable[[], int]
"""A parsed expression. It calculates when called, so that operands that do not count have no effect."""
_TOKEN = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|\d+|[A-Za-z_]\w*"
    r"|<<=|>>=|\+\+|--|&&|\|\||<<|>>|<=|>=|==|!=|[-+*/%&|^]=|[-+*/%<>=!~&|^?:(),])",
    re.ASCII,
)
_LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")
_PRECEDENCE = {symbol: level for level, symbols in enumerate(_LEVELS) for symbol in symbols.split()}
_ASSIGNMENTS = frozenset("= += -= *= /= %= &= |= ^= <<= >>=".split())
COMPARISONS: dict[str, Callable[[int, int], int]] = {
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne}
}
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    **{**COMPARISONS, "+": operator.add, "-": operator.sub, "*": operator.mul},
    **{"&": operator.and_, "|": operator.or_, "^": operator.xor},
    "<<": lambda left, right: left << (right & 31),
    ">>": lambda left, right: left >> (right & 31),
}
MAX_LENGTH = 4000
"""Longest expression in characters."""


class ArithmeticFault(ValueError):
    """The expression has no value."""


def _wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def evaluate(expression: str, get: Callable[[str], str], put: Callable[[str, str], None]) -> int:
    """The value of an expression; `get` and `put` read and write variables. `ArithmeticFault` where it has none."""
    if expression.isdecimal() and len(expression) < 10:
        return int(expression)
    try:
        if len(expression) <= MAX_LENGTH:
            return _Parser(expression, get, put).parsed()()
    except RecursionError:
        pass
    raise ArithmeticFault(f"{expression[:40]}: expression too complex")


class _Parser:
    def __init__(self, expression: str, get: Callable[[str], str], put: Callable[[str, str], None]) -> None:
        self._expression, self._get, self._put = expression, get, put
        self._tokens: list[str] = []
        self._at, position, end = 0, 0, len(expression.rstrip())
        while position < end:
            found = _TOKEN.match(expression, position)
            if found is None:
                raise self._fault("unexpected token")
            self._tokens.append(found[1])
            position = found.end()

    def _fault(self, message: str) -> ArithmeticFault:
        return ArithmeticFault(f"{self._expression}: {message}")

    def _token(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ""

    def _accept(self, *symbols: str) -> str:
        symbol = self._token()
        if symbol not in symbols:
            return ""
        self._at += 1
        return symbol

    def parsed(self) -> Value:
        value = self._comma() if self._tokens else lambda: 0
        if self._token():
            raise self._fault("unexpected token")
        return value

    def _comma(self) -> Value:
        values = [self._assignment()]
        while self._accept(","):
            values.append(self._assignment())
        return lambda: [value() for value in values][-1]

    def _assignment(self) -> Value:
        name, symbol = self._token(), self._token(1)
        if name.isidentifier() and symbol in _ASSIGNMENTS:
            self._at += 2
            value = self._assignment()
            return lambda: self._assigned(name, symbol[:-1], value())
        condition = self._binary(0)
        if not self._accept("?"):
            return condition
        first = self._assignment()
        if not self._accept(":"):
            raise self._fault("missing :")
        second = self._assignment()
        return lambda: first() if condition() else second()

    def _binary(self, level: int) -> Value:
        """Operators that bind at least as tightly as those of a level."""
        left = self._operand()
        while (found := _PRECEDENCE.get(self._token(), -1)) >= level:
            self._at += 1
            left = self._combined(self._tokens[self._at - 1], left, self._binary(found + 1))
        return left

    def _combined(self, symbol: str, left: Value, right: Value) -> Value:
        if symbol == "&&":
            return lambda: int(bool(left() and right()))
        if symbol == "||":
            return lambda: int(bool(left() or right()))
        return lambda: self._apply(symbol, left(), right())

    def _apply(self, symbol: str, left: int, right: int) -> int:
        if symbol not in ("/", "%"):
            return _wrap(int(_OPERATIONS[symbol](left, right)))
        if right == 0:
            raise self._fault("zero divisor")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return _wrap(quotient if symbol == "/" else left - quotient * right)

    def _operand(self) -> Value:
        if symbol := self._accept("++", "--"):
            name = self._name()
            return lambda: self._assigned(name, symbol[0], 1)
        if symbol := self._accept("+", "-", "!", "~"):
            value = self._operand()
            factor, offset = {"+": (1, 0), "-": (-1, 0), "~": (-1, -1), "!": (0, 0)}[symbol]
            return lambda: int(not value()) if symbol == "!" else _wrap(factor * value() + offset)
        if self._accept("("):
            value = self._comma()
            if not self._accept(")"):
                raise self._fault("missing )")
            return value
        if (digits := self._token())[:1].isdigit():
            self._at += 1
            number = _wrap(int(digits, 16) if digits[:2] in ("0x", "0X") else int(digits[:400]))
            return lambda: number
        name = self._name()
        if symbol := self._accept("++", "--"):  # the value before it
            return lambda: _wrap(self._assigned(name, symbol[0], 1) - (1 if symbol == "++" else -1))
        return lambda: self._variable(name)

    def _name(self) -> str:
        name = self._token()
        if not name.isidentifier():
            raise self._fault("unexpected token" if name else "unexpected end of expression")
        self._at += 1
        return name

    def _variable(self, name: str) -> int:
        """A variable's text is an expression itself."""
        return evaluate(self._get(name) or "0", self._get, self._put)

    def _assigned(self, name: str, symbol: str, value: int) -> int:
        """Carries out `name symbol= value`, and returns the new value."""
        value = self._apply(symbol, self._variable(name), value) if symbol else _wrap(value)
        self._put(name, str(value))
        return value
