"""Whether a script reads what its host sends: without that, nobody need wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from envs.phone.shell.lang import nodes
from envs.phone.shell.lang.parser import parse

READERS = frozenset(("read", "tee", "xargs", "tr"))
"""Commands that read standard input whatever their words are."""
READERS_WITHOUT_FILES = frozenset(
    ("cat", "sh", "wc", "sort", "head", "tail", "base64", "md5sum", "sha1sum", "sha256sum", "xxd", "od", "tac", "uniq")
)


def reads_input(script: str) -> bool:
    """True where a command that neither a pipe nor a redirection feeds would read standard input."""
    return any(_reads(command) for line in parse(script).lines for command in _unfed(line))


def _reads(command: nodes.Simple) -> bool:
    words = [word.plain for word in command.words]
    if not words or words[0] is None:
        return False
    name = words[0].rpartition("/")[2]
    return name in READERS or name in READERS_WITHOUT_FILES and all(w is not None and w[:1] == "-" for w in words[1:])


def _unfed(node: nodes.Node | None) -> Iterator[nodes.Simple]:
    """The simple commands whose standard input is the script's own."""
    if isinstance(node, nodes.Simple | nodes.Redirected) and any(r.fd == 0 for r in node.redirects):
        return
    if isinstance(node, nodes.Simple):
        yield node
        return
    for inner in _parts(node):
        yield from _unfed(inner)


def _parts(node: nodes.Node | None) -> tuple[nodes.Node | None, ...]:
    if isinstance(node, nodes.Pipeline):
        return node.commands[:1]
    if isinstance(node, nodes.Sequence):
        return node.commands
    if isinstance(node, nodes.AndOr):
        return (node.first, *(command for _, command in node.rest))
    if isinstance(node, nodes.If):
        return (*(part for branch in node.branches for part in branch), node.otherwise)
    if isinstance(node, nodes.While):
        return (node.condition, node.body)
    if isinstance(node, nodes.Subshell | nodes.Redirected | nodes.For | nodes.Function):
        return (node.body,)
    return ()
