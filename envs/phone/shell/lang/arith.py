"""Arithmetic as mksh has it: C's operators on signed 32-bit integers."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

_TOKEN = re.compile(
    r"\s*(?:(\d+#[0-9A-Za-z]+|0[xX][0-9a-fA-F]+|\d+)|([A-Za-z_]\w*)"
    r"|(<<=|>>=|\+\+|--|&&|\|\||<<|>>|<=|>=|==|!=|[-+*/%&|^]=|[-+*/%<>=!~&|^?:(),]))",
    re.ASCII,
)
_LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")
_PRECEDENCE = {symbol: level for level, symbols in enumerate(_LEVELS) for symbol in symbols.split()}
_ASSIGNMENTS = frozenset("= += -= *= /= %= &= |= ^= <<= >>=".split())
COMPARISONS: dict[str, Callable[[int, int], int]] = {
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne}
}
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    **COMPARISONS,
    **{"+": operator.add, "-": operator.sub, "*": operator.mul},
    **{"&": operator.and_, "|": operator.or_, "^": operator.xor},
    "<<": lambda left, right: left << (right & 31),
    ">>": lambda left, right: left >> (right & 31),
}
MAX_DEPTH = 25
MAX_LENGTH = 10_000


class ArithmeticFault(ValueError):
    """The expression has no value."""


def wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


class Evaluator:
    """`get` and `put` read and write the shell's variables."""

    def __init__(self, get: Callable[[str], str], put: Callable[[str, str], None], depth: int = 0) -> None:
        self._get, self._put, self._depth = get, put, depth
        self._skipping = 0

    def value(self, expression: str) -> int:
        if len(expression) > MAX_LENGTH or self._depth > MAX_DEPTH:
            raise ArithmeticFault(f"{expression[:40]}: expression too complex")
        self._expression, self._tokens, self._at = expression, [], 0
        at, end = 0, len(expression.rstrip())
        while at < end:
            found = _TOKEN.match(expression, at)
            if found is None:
                raise self._fault("bad number" if expression[at : at + 1].isdigit() else "unexpected token")
            self._tokens.append(found)
            at = found.end()
        if not self._tokens:
            return 0
        result = self._comma()
        if self._at < len(self._tokens):
            raise self._fault("unexpected token")
        return result

    def _fault(self, what: str) -> ArithmeticFault:
        return ArithmeticFault(f"{self._expression}: {what}")

    def _token(self, group: int, ahead: int = 0) -> str:
        """The text of a coming token if it is a number (1), a name (2) or an operator (3), else ""."""
        at = self._at + ahead
        return self._tokens[at][group] or "" if at < len(self._tokens) else ""

    def _take(self, *symbols: str) -> str:
        symbol = self._token(3)
        if symbol not in symbols:
            return ""
        self._at += 1
        return symbol

    def _deeper(self, parse: Callable[[], int], skip: bool = False) -> int:
        """Parses an inner expression, without effects where `skip`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._fault("expression too complex")
        self._skipping += skip
        value = parse()
        self._skipping -= skip
        self._depth -= 1
        return value

    def _comma(self) -> int:
        value = self._assignment()
        while self._take(","):
            value = self._assignment()
        return value

    def _assignment(self) -> int:
        name, symbol = self._token(2), self._token(3, ahead=1)
        if name and symbol in _ASSIGNMENTS:
            self._at += 2
            value = self._deeper(self._assignment)
            if symbol != "=":
                value = self._apply(symbol[:-1], self._variable(name), value)
            return self._store(name, value)
        condition = self._binary(0)
        if not self._take("?"):
            return condition
        first = self._deeper(self._assignment, skip=not condition)
        if not self._take(":"):
            raise self._fault("missing :")
        second = self._deeper(self._assignment, skip=bool(condition))
        return first if condition else second

    def _binary(self, level: int) -> int:
        """Operators that bind at least as tightly as those of a level."""
        left = self._unary()
        while (found := _PRECEDENCE.get(symbol := self._token(3), -1)) >= level:
            self._at += 1
            decided = symbol in ("&&", "||") and bool(left) == (symbol == "||")
            self._skipping += decided
            right = self._binary(found + 1)
            self._skipping -= decided
            left = int(bool(left if decided else right)) if symbol in ("&&", "||") else self._apply(symbol, left, right)
        return left

    def _apply(self, symbol: str, left: int, right: int) -> int:
        if symbol not in ("/", "%"):
            return wrap(int(_OPERATIONS[symbol](left, right)))
        if right == 0:
            if self._skipping:
                return 0
            raise self._fault("zero divisor")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return wrap(quotient if symbol == "/" else left - quotient * right)

    def _unary(self) -> int:
        symbol = self._take("+", "-", "!", "~", "++", "--")
        if symbol in ("++", "--"):
            name = self._name()
            return self._store(name, self._variable(name) + (1 if symbol == "++" else -1))
        if not symbol:
            return self._primary()
        value = self._deeper(self._unary)
        return wrap({"+": value, "-": -value, "!": int(not value), "~": ~value}[symbol])

    def _primary(self) -> int:
        if self._take("("):
            value = self._deeper(self._comma)
            if not self._take(")"):
                raise self._fault("missing )")
            return value
        if self._at >= len(self._tokens):
            raise self._fault("unexpected end of expression")
        if number := self._token(1):
            self._at += 1
            return self._number(number)
        name = self._name()
        value = self._variable(name)
        if symbol := self._take("++", "--"):
            self._store(name, value + (1 if symbol == "++" else -1))
        return value

    def _name(self) -> str:
        name = self._token(2)
        if not name:
            raise self._fault("unexpected token")
        self._at += 1
        return name

    def _number(self, text: str) -> int:
        base, _, digits = text.rpartition("#")
        try:
            if base:
                return wrap(int(digits, int(base[:3])))
            return wrap(int(text, 16) if text[:2] in ("0x", "0X") else int(text[:400]))
        except ValueError:
            raise self._fault("bad number") from None

    def _variable(self, name: str) -> int:
        """A variable's text is an expression in its turn."""
        text = self._get(name)
        if text.isdecimal():
            return self._number(text)
        return Evaluator(self._get, self._put, self._depth + 5).value(text) if text else 0

    def _store(self, name: str, value: int) -> int:
        value = wrap(value)
        if not self._skipping:
            self._put(name, str(value))
        return value
