"""`[[ ... ]]`: its grammar and its value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs.phone.shell.lang.arith import ArithmeticFault
from envs.phone.shell.lang.conditions import BINARY, UNARY, Condition, Wrong
from envs.phone.shell.lang.nodes import Comparison, Logical, Negation, Test, Word
from envs.phone.shell.regex import glob

if TYPE_CHECKING:
    from envs.phone.shell.lang.interpret import Interpreter
    from envs.phone.shell.lang.parser import Parser


def read_test(parser: Parser) -> Test:
    """Reads up to `]]`, which is taken."""
    test = _logical(parser, "||", "&&")
    parser.take("]]")
    return test


def _logical(parser: Parser, operator: str, *tighter: str) -> Test:
    def operand() -> Test:
        return _logical(parser, *tighter) if tighter else _negated(parser)

    left = operand()
    while parser.at(operator):
        parser.next()
        left = Logical(operator, left, operand())
    parser.skip_newlines()
    return left


def _negated(parser: Parser) -> Test:
    parser.skip_newlines()
    with parser.nested("[["):
        if parser.at("!"):
            parser.next()
            return Negation(_negated(parser))
        if parser.at("("):
            parser.next()
            inner = _logical(parser, "||", "&&")
            parser.take(")")
            return inner
        return _comparison(parser)


def _comparison(parser: Parser) -> Test:
    first = _operand(parser)
    if first.plain is not None and first.plain[:1] == "-" and first.plain[1:] in UNARY and not _ends(parser):
        return Comparison(first.plain, _operand(parser))
    operator = parser.peek()
    if operator.text in BINARY and operator.kind in ("word", "op"):
        parser.next()
        return Comparison(operator.text, first, _operand(parser))
    return Comparison("-n", first)


def _ends(parser: Parser) -> bool:
    return parser.at("]]", "&&", "||", ")") or parser.peek().word is None


def _operand(parser: Parser) -> Word:
    token = parser.peek()
    if token.word is None or parser.at("]]"):
        raise parser.unexpected()
    parser.next()
    return token.word


def evaluate(shell: Interpreter, test: Test) -> int:
    """0 for true, 1 for false, 2 where a number was none."""
    shell.flush()
    try:
        return int(not _value(shell, test))
    except (Wrong, ArithmeticFault) as wrong:
        shell.complain(f"[[: {wrong}")
        return 2


def _value(shell: Interpreter, test: Test) -> bool:
    if isinstance(test, Negation):
        return not _value(shell, test.test)
    if isinstance(test, Logical):
        left = _value(shell, test.left)
        return left if left == (test.operator == "||") else _value(shell, test.right)
    left = shell.expand.text(test.left)
    condition = Condition(shell, [])
    if test.right is None:
        return condition.unary(test.operator[1:], left)
    if test.operator in ("=", "==", "!="):
        fits = glob(shell.expand.pattern(test.right)).full(left, shell.budget.spend)
        return fits != (test.operator == "!=")
    return condition.binary(left, test.operator, shell.expand.text(test.right))
