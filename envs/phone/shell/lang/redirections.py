"""Redirections: `>`, `<`, `2>&1`, here-documents."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.lang.nodes import Redirect
from envs.phone.shell.lang.streams import FileSink, Null, Sink, Source, to_bytes

if TYPE_CHECKING:
    from envs.phone.shell.lang.interpret import Interpreter, Streams


@contextmanager
def applied(shell: Interpreter, redirects: Sequence[Redirect]) -> Iterator[bool]:
    """The shell's streams are redirected inside; False where one cannot be, which stderr is then told."""
    if not redirects:
        yield True
        return
    before = shell.streams
    shell.streams = dict(before)
    shell.keeping = False
    try:
        try:
            for redirect in redirects:
                apply(shell, redirect)
            good = True
        except Failure as failure:
            good = False
            shell.complain(str(failure))
        yield good
    finally:
        shell.flush()
        if not shell.keeping:
            shell.streams = before
        shell.keeping = False


def apply(shell: Interpreter, redirect: Redirect) -> None:
    """Changes the shell's streams. `Failure` where that is not possible."""
    streams, op = shell.streams, redirect.op
    if redirect.document is not None:
        streams[redirect.fd] = Source(to_bytes(shell.expand.text(redirect.document.body)))
        return
    target = shell.expand.text(redirect.target)
    if op == "<<<":
        streams[redirect.fd] = Source(to_bytes(target + "\n"))
    elif op in (">&", "<&"):
        _duplicate(streams, redirect.fd, target)
    elif op in ("<", "<>"):
        streams[redirect.fd] = reading(shell, target)
    elif op in ("&>", "&>>"):
        streams[1] = streams[2] = writing(shell, target, op == "&>>")
    else:
        streams[redirect.fd] = writing(shell, target, op == ">>")


def _duplicate(streams: Streams, fd: int, target: str) -> None:
    if target == "-":
        streams.pop(fd, None)
        return
    if not target.isdecimal() or int(target[:9]) not in streams:
        raise Failure(f"{target}: bad file descriptor")
    streams[fd] = streams[int(target)]


def reading(shell: Interpreter, path: str) -> Source:
    shell.flush()
    full = files.normal(posixpath.join(shell.state.cwd, path))
    if path and files.is_folder(shell.phone, full):
        return Source()  # it can be opened; reading it fails, which no program here finds out
    try:
        return Source(files.read(shell.phone, full))
    except Failure as failure:
        raise Failure(f"can't open {path}: {str(failure).rpartition(': ')[2]}") from None


def writing(shell: Interpreter, path: str, append: bool) -> Sink:
    full = files.normal(posixpath.join(shell.state.cwd, path))
    if full in ("/dev/null", "/dev/tty"):
        return Null(shell.budget)
    shell.flush()
    shell.budget.spend(len(shell.phone.files) >> 3)
    try:
        if path == "" or not files.is_folder(shell.phone, posixpath.dirname(full)):
            raise Failure(": No such file or directory")
        return FileSink(shell.budget, shell.phone, full, append)
    except Failure as failure:
        raise Failure(f"can't create {path}: {str(failure).rpartition(': ')[2]}") from None
