"""Where commands read from and write to, and the redirections that change it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from envs.phone.phone import Phone
from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.lang.nodes import Redirect
from envs.phone.shell.lang.state import Budget

if TYPE_CHECKING:
    from envs.phone.shell.lang.interpret import Interpreter


def to_bytes(text: str) -> bytes:
    """Bytes of a file that are not UTF-8 pass through text unchanged, as lone surrogates."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def to_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


class Source:
    """Input. Commands that share it each go on where the one before stopped."""

    def __init__(self, data: bytes = b"") -> None:
        self._data, self._at = data, 0

    def read(self) -> bytes:
        rest = self._data[self._at :] if self._at else self._data
        self._at = len(self._data)
        return rest

    def line(self) -> bytes:
        """The next line with its newline; b"" at the end."""
        end = self._data.find(b"\n", self._at) + 1 or len(self._data)
        line = self._data[self._at : end]
        self._at = end
        return line


class Sink:
    """Output kept in memory: a pipe, or what the host receives."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self._budget.take(len(data))
        self.data += data


class Null(Sink):
    def write(self, data: bytes) -> None:
        pass


class FileSink(Sink):
    """A file opened for writing. What is written is in the file after `flush`, which the interpreter calls in time."""

    def __init__(self, budget: Budget, phone: Phone, path: str, append: bool) -> None:
        super().__init__(budget)
        self._phone, self._path = phone, path
        if not append or path not in phone.files:
            files.write(phone, path, b"")

    def write(self, data: bytes) -> None:
        super().write(data)
        self._budget.unwritten.append(self)

    def flush(self) -> None:
        if self.data and self._path in self._phone.files:
            files.write(self._phone, self._path, bytes(self.data), append=True)
        self.data.clear()


# --- redirections ------------------------------------------------------------------------------------------------


@contextmanager
def redirected(shell: Interpreter, redirects: Sequence[Redirect]) -> Iterator[bool]:
    """The shell's streams are redirected inside; False where one cannot be, which stderr is then told."""
    if not redirects:
        yield True
        return
    before = shell.streams
    shell.streams = dict(before)
    shell.keeping = False
    good = True
    try:
        try:
            for redirect in redirects:
                _apply(shell, redirect)
        except Failure as failure:
            good = False
            shell.complain(str(failure))
        yield good
    finally:
        shell.flush()
        if not shell.keeping:
            shell.streams = before
        shell.keeping = False


def _apply(shell: Interpreter, redirect: Redirect) -> None:
    """Changes the shell's streams. `Failure` where that is not possible."""
    streams, op, fd = shell.streams, redirect.op, redirect.fd
    if redirect.document is not None:
        streams[fd] = Source(to_bytes(shell.expand.text(redirect.document.body)))
        return
    target = shell.expand.text(redirect.target)
    if op == "<<<":
        streams[fd] = Source(to_bytes(target + "\n"))
    elif op in (">&", "<&") and target == "-":
        streams.pop(fd, None)
    elif op in (">&", "<&"):
        if not target.isdecimal() or int(target[:9]) not in streams:
            raise Failure(f"{target}: bad file descriptor")
        streams[fd] = streams[int(target)]
    elif op in ("<", "<>"):
        streams[fd] = reading(shell, target)
    elif op in ("&>", "&>>"):
        streams[1] = streams[2] = writing(shell, target, op == "&>>")
    else:
        streams[fd] = writing(shell, target, op == ">>")


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
