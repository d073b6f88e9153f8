"""The syntax tree of a shell script. Trees are immutable, so one parse serves any number of runs."""

from __future__ import annotations

from dataclasses import dataclass


class SyntaxFault(ValueError):
    """The script cannot be parsed."""


class Incomplete(SyntaxFault):
    """The script ends inside a quote, a compound command or a here-document: more lines may complete it."""


# --- words -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """Text as it stands. Unquoted text may be a pattern or start with a tilde."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$name`, or `${name op argument}`. The operator "length" is `${#name}`."""

    name: str
    op: str = ""
    argument: Word | None = None
    second: Word | None = None
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(script)` or backticks."""

    script: Script
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`$((expression))`."""

    expression: Word
    quoted: bool = False


Part = Literal | Parameter | Substitution | Arithmetic


@dataclass(frozen=True, slots=True)
class Word:
    """`plain` is the word's value where no expansion can change it, else None."""

    parts: tuple[Part, ...]
    plain: str | None = None


# --- commands ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class HereDocument:
    """A here-document. The parser fills in the body when it comes to the end of the line."""

    delimiter: str
    strip_tabs: bool
    raw: bool
    body: Word = Word((), "")


@dataclass(frozen=True, slots=True)
class Redirect:
    """`op` is one of < > >> >| <> <& >& &> &>> << <<- <<<."""

    fd: int
    op: str
    target: Word
    document: HereDocument | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    name: str
    value: Word
    append: bool = False


@dataclass(frozen=True, slots=True)
class Simple:
    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Redirected:
    """A compound command with redirections."""

    body: Node
    redirects: tuple[Redirect, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    commands: tuple[Node, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class AndOr:
    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    commands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Background:
    """`command &`. It runs to its end at once, in a subshell."""

    body: Node


@dataclass(frozen=True, slots=True)
class Subshell:
    body: Node


@dataclass(frozen=True, slots=True)
class If:
    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node | None = None


@dataclass(frozen=True, slots=True)
class For:
    """Without `in`, `words` is None and the loop runs over the positional parameters."""

    name: str
    words: tuple[Word, ...] | None
    body: Node


@dataclass(frozen=True, slots=True)
class While:
    condition: Node
    body: Node
    until: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    subject: Word
    items: tuple[tuple[tuple[Word, ...], Node | None], ...]


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    body: Node


@dataclass(frozen=True, slots=True)
class Calculation:
    """`((expression))` as a command."""

    expression: Word


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison of `[[ ]]`; without `right`, a test like `-f left`."""

    operator: str
    left: Word
    right: Word | None = None


@dataclass(frozen=True, slots=True)
class Negation:
    test: Test


@dataclass(frozen=True, slots=True)
class Logical:
    operator: str
    left: Test
    right: Test


Test = Comparison | Negation | Logical


@dataclass(frozen=True, slots=True)
class DoubleBrackets:
    """`[[ test ]]`."""

    test: Test


Node = (
    Simple
    | Redirected
    | Pipeline
    | AndOr
    | Sequence
    | Background
    | Subshell
    | If
    | For
    | While
    | Case
    | Function
    | Calculation
    | DoubleBrackets
)


@dataclass(frozen=True, slots=True)
class Script:
    """What was parsed line by line, and the fault at which parsing stopped: the lines before it still run."""

    lines: tuple[Node, ...]
    fault: SyntaxFault | None = None
