"""The syntax tree of a shell script."""

from __future__ import annotations

from typing import Literal as OneOf
from typing import NamedTuple

from mobilerl.envs.phone.shell.command import Failure


class SyntaxFault(Failure):
    """The script cannot be parsed."""


# --- words -------------------------------------------------------------------------------------------------------


class Literal(NamedTuple):
    """Text without expansions. Unquoted text may be a pattern or start with a tilde."""

    text: str
    quoted: bool = False


class Parameter(NamedTuple):
    """`$name` or `${name}`."""

    name: str
    quoted: bool = False


class Substitution(NamedTuple):
    """`$(script)` or backticks."""

    body: Node
    quoted: bool = False


Part = Literal | Parameter | Substitution
Word = tuple[Part, ...]


# --- commands ----------------------------------------------------------------------------------------------------


class Redirect(NamedTuple):
    fd: int
    op: str
    target: Word


class Simple(NamedTuple):
    """`name=value ... command word ... >file`."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Redirected(NamedTuple):
    """A compound command with redirections."""

    body: Node
    redirects: tuple[Redirect, ...]


class Pipeline(NamedTuple):
    commands: tuple[Node, ...]
    negated: bool


class AndOr(NamedTuple):
    left: Node
    op: OneOf["&&", "||"]
    right: Node


class Sequence(NamedTuple):
    commands: tuple[Node, ...]


class Subshell(NamedTuple):
    """`(body)`, or `body &`, which does not run in the background either."""

    body: Node


class If(NamedTuple):
    """Pairs of condition and body; the condition of `else` is None."""

    branches: tuple[tuple[Node | None, Node], ...]


Node = Simple | Redirected | Pipeline | AndOr | Sequence | Subshell | If
