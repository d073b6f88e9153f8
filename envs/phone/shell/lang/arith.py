"""Arithmetic as mksh has it: C's operators on signed 32-bit integers."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(
    r"\s*(?:(\d+#[0-9A-Za-z]+|0[xX][0-9a-fA-F]+|\d+)|([A-Za-z_]\w*)"
    r"|(<<=|>>=|\+\+|--|&&|\|\||<<|>>|<=|>=|==|!=|[-+*/%&|^]=|[-+*/%<>=!~&|^?:(),]))",
    re.ASCII,
)
_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_ASSIGNMENTS = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))
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

    def _operator(self) -> str:
        return self._tokens[self._at][3] or "" if self._at < len(self._tokens) else ""

    def _take(self, *operators: str) -> str:
        operator = self._operator()
        if operator and operator in operators:
            self._at += 1
            return operator
        return ""

    def _comma(self) -> int:
        value = self._assignment()
        while self._take(","):
            value = self._assignment()
        return value

    def _assignment(self) -> int:
        start = self._at
        if start + 1 < len(self._tokens) and self._tokens[start][2] and self._tokens[start + 1][3] in _ASSIGNMENTS:
            name, operator = self._tokens[start][2], self._tokens[start + 1][3]
            self._at += 2
            self._deeper()
            value = self._assignment()
            self._depth -= 1
            if operator != "=":
                value = self._apply(operator[:-1], self._variable(name), value)
            return self._store(name, value)
        return self._ternary()

    def _ternary(self) -> int:
        condition = self._binary(0)
        if not self._take("?"):
            return condition
        self._deeper()
        first = self._skip(not condition, self._assignment)
        if not self._take(":"):
            raise self._fault("missing :")
        second = self._skip(bool(condition), self._assignment)
        self._depth -= 1
        return first if condition else second

    def _skip(self, skip: bool, parse: Callable[[], int]) -> int:
        """Parses, without effects where `skip`."""
        self._skipping += skip
        value = parse()
        self._skipping -= skip
        return value

    def _binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while operator := self._take(*_LEVELS[level]):
            if operator in ("&&", "||"):
                decided = bool(left) == (operator == "||")
                right = self._skip(decided, lambda: self._binary(level + 1))
                left = int(bool(left)) if decided else int(bool(right))
            else:
                left = self._apply(operator, left, self._binary(level + 1))
        return left

    def _apply(self, operator: str, left: int, right: int) -> int:
        if operator in ("/", "%"):
            if right == 0:
                if self._skipping:
                    return 0
                raise self._fault("zero divisor")
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return wrap(quotient if operator == "/" else left - quotient * right)
        return wrap(
            {
                "+": lambda: left + right,
                "-": lambda: left - right,
                "*": lambda: left * right,
                "<<": lambda: left << (right & 31),
                ">>": lambda: left >> (right & 31),
                "&": lambda: left & right,
                "|": lambda: left | right,
                "^": lambda: left ^ right,
                "<": lambda: left < right,
                "<=": lambda: left <= right,
                ">": lambda: left > right,
                ">=": lambda: left >= right,
                "==": lambda: left == right,
                "!=": lambda: left != right,
            }[operator]()
        )

    def _unary(self) -> int:
        operator = self._take("+", "-", "!", "~", "++", "--")
        if operator in ("++", "--"):
            name = self._name()
            return self._store(name, self._variable(name) + (1 if operator == "++" else -1))
        if operator:
            self._deeper()
            value = self._unary()
            self._depth -= 1
            return wrap({"+": value, "-": -value, "!": int(not value), "~": ~value}[operator])
        return self._primary()

    def _primary(self) -> int:
        if self._take("("):
            self._deeper()
            value = self._comma()
            self._depth -= 1
            if not self._take(")"):
                raise self._fault("missing )")
            return value
        if self._at >= len(self._tokens):
            raise self._fault("unexpected end of expression")
        token = self._tokens[self._at]
        if token[1]:
            self._at += 1
            return self._number(token[1])
        name = self._name()
        value = self._variable(name)
        if operator := self._take("++", "--"):
            self._store(name, value + (1 if operator == "++" else -1))
        return value

    def _name(self) -> str:
        if self._at >= len(self._tokens) or not self._tokens[self._at][2]:
            raise self._fault("unexpected token")
        self._at += 1
        return self._tokens[self._at - 1][2]

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

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._fault("expression too complex")
