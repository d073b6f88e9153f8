"""The syntax tree of a shell script. Trees are immutable, so one parse serves any number of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class SyntaxFault(ValueError):
    """The script cannot be parsed."""


class Incomplete(SyntaxFault):
    """The script ends inside a quote, a compound command or a here-document: more lines may complete it."""


class Literal(NamedTuple):
    """Text without expansions. Unquoted text may be a pattern or start with a tilde."""

    text: str
    quoted: bool = False


class Parameter(NamedTuple):
    """`$name`, or `${name op argument}`. The operator "length" is `${#name}`; `second` is the length in `${x:n:m}`."""

    name: str
    op: str = ""
    argument: Word | None = None
    second: Word | None = None
    quoted: bool = False


class Substitution(NamedTuple):
    """`$(script)` or backticks."""

    body: Node
    quoted: bool = False


class Arithmetic(NamedTuple):
    """`$((expression))`."""

    expression: Word
    quoted: bool = False


Part = Literal | Parameter | Substitution | Arithmetic


class Word(NamedTuple):
    """`plain` is the word's value where no expansion can change it, else None."""

    parts: tuple[Part, ...]
    plain: str | None = None


@dataclass(slots=True)
class HereDocument:
    """A here-document. The parser fills in the body when it reaches the end of the line."""

    delimiter: str
    strip_tabs: bool
    raw: bool
    body: Word = Word((), "")


class Redirect(NamedTuple):
    """`op` is one of `<`, `>`, `>>`, `<&`, `>&`, `&>`, `<<` and `<<-`."""

    fd: int
    op: str
    target: Word
    document: HereDocument | None = None


class Assignment(NamedTuple):
    name: str
    value: Word
    append: bool = False


class Simple(NamedTuple):
    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()


class Redirected(NamedTuple):
    """A compound command with redirections."""

    body: Node
    redirects: tuple[Redirect, ...]


class Pipeline(NamedTuple):
    commands: tuple[Node, ...]
    negated: bool = False


class AndOr(NamedTuple):
    first: Node
    rest: tuple[tuple[str, Node], ...]


class Sequence(NamedTuple):
    commands: tuple[Node, ...]


class Subshell(NamedTuple):
    """`(body)` or, in the `background`, `body &`."""

    body: Node
    background: bool = False


class If(NamedTuple):
    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node


class For(NamedTuple):
    """Without `in`, `words` is None and the loop runs over the positional parameters."""

    name: str
    words: tuple[Word, ...] | None
    body: Node


class While(NamedTuple):
    condition: Node
    body: Node
    until: bool = False


class Case(NamedTuple):
    subject: Word
    items: tuple[tuple[tuple[Word, ...], Node], ...]


class Function(NamedTuple):
    name: str
    body: Node


Node = Simple | Redirected | Pipeline | AndOr | Sequence | Subshell | If | For | While | Case | Function


class Script(NamedTuple):
    """The parsed lines, and the fault at which parsing stopped: the lines before it still run."""

    lines: tuple[Node, ...]
    fault: SyntaxFault | None = None
