"""Whether a script reads what its host sends: without that, nobody need wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from envs.phone.shell.lang import nodes
from envs.phone.shell.lang.parser import parse

READERS = frozenset(("read", "tee", "xargs", "tr"))
"""Commands that read standard input whatever their words are."""
READERS_WITHOUT_FILES = frozenset(
    ("cat", "sh", "wc", "sort", "head", "tail", "base64", "md5sum", "sha1sum", "sha256sum", "uniq")
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


def _unfed(node: object) -> Iterator[nodes.Simple]:
    """The simple commands whose standard input is the script's own."""
    if isinstance(node, nodes.Simple | nodes.Redirected) and any(r.fd == 0 for r in node.redirects):
        return
    if isinstance(node, nodes.Simple):
        yield node
    elif isinstance(node, nodes.Pipeline):
        yield from _unfed(node.commands[0])
    elif isinstance(node, tuple) and not isinstance(node, nodes.Word | nodes.Redirect | nodes.Case):
        for inner in node:
            yield from _unfed(inner)
