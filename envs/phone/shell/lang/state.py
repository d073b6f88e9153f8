"""The state of a shell session, the budget of a run, the exceptions that leave a command, and the streams."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell import files
from mobilerl.envs.phone.shell.command import Failure

MAX_WORK = 1_000_000
"""Work that one line may do, in units of about 10 microseconds on a slow processor."""
MAX_BYTES = 128 << 20
"""Total bytes that one line may write to files, pipes and outputs."""
MAX_WORD = 1 << 20
"""Maximum characters of an expanded word."""
MAX_VARIABLES = 16 << 20
"""Maximum characters of all variables of a session."""
KILLED = 137
ENVIRONMENT = {
    "PATH": "/product/bin:/apex/com.android.runtime/bin:/system/bin:/system/xbin:/vendor/bin",
    **{"HOME": "/", "USER": "root", "LOGNAME": "root", "SHELL": "/system/bin/sh", "TERM": "dumb"},
    **{"HOSTNAME": "emu64xa", "ANDROID_ROOT": "/system", "ANDROID_DATA": "/data", "PWD": "/"},
    **{"TMPDIR": "/data/local/tmp", "EXTERNAL_STORAGE": "/sdcard"},
}
PID = 4242


class LimitReached(Exception):
    """The line exhausted its budget. The whole line ends with exit code 137."""


class Exit(Exception):
    """Raised by `exit` to end the shell."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Budget:
    """The remaining work and bytes of a line."""

    def __init__(self) -> None:
        self.work, self.bytes = MAX_WORK, MAX_BYTES

    def spend(self, work: int) -> None:
        self.work -= work
        if self.work < 0:
            raise LimitReached("stopped: the line does too much work")

    def take(self, size: int) -> None:
        self.bytes -= size
        if self.bytes < 0:
            raise LimitReached(f"stopped: the line writes more than {MAX_BYTES >> 20} MiB")


@dataclass
class State:
    """Variables and current folder of one shell. A subshell works on a copy."""

    cwd: str = "/"
    variables: dict[str, str] = field(default_factory=lambda: dict(ENVIRONMENT))
    status: int = 0

    def copy(self) -> State:
        return replace(self, variables=dict(self.variables))

    def path(self, word: str) -> str:
        """The canonical path of a word, which may be relative to the current folder."""
        return files.normal(posixpath.join(self.cwd, word))

    def assign(self, name: str, value: str) -> None:
        self.variables[name] = value
        if len(value) > 4096 and sum(map(len, self.variables.values())) > MAX_VARIABLES:
            del self.variables[name]
            raise Failure("the variables need too much memory")

    def get(self, name: str) -> str | None:
        """The value of `$name`, or None if it is not set. There are no positional parameters."""
        return {"?": str(self.status), "$": str(PID), "!": str(PID), "#": "0"}.get(name) or self.variables.get(name)


# --- streams -----------------------------------------------------------------------------------------------------


class Source:
    """An input stream. The first command that reads it gets everything."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = data

    def read(self) -> bytes:
        data, self._data = self._data, b""
        return data


class Sink:
    """An output stream in memory: a pipe, or output for the host."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self._budget.take(len(data))
        self.data += data


class FileSink(Sink):
    """A file opened for writing."""

    def __init__(self, budget: Budget, phone: Phone, path: str, append: bool) -> None:
        super().__init__(budget)
        self._phone, self._path = phone, path
        if not append or path not in phone.files:
            files.write(phone, path, b"")

    def write(self, data: bytes) -> None:
        self._budget.take(len(data))
        self._budget.spend(len(self._phone.files.get(self._path, b"")) >> 12)  # a write copies the file
        if self._path in self._phone.files:
            files.write(self._phone, self._path, data, append=True)


Streams = dict[int, Source | Sink]


class Context(Protocol):
    """The shell that a command runs in; `Interpreter` is the only one."""

    phone: Phone
    state: State
    streams: Streams
    budget: Budget

    def write(self, fd: int, data: bytes) -> None:
        """Writes to one of the shell's streams, if it is open for writing."""

    def script(self, text: str) -> int:
        """Runs a script and returns its exit code."""

    def command(self, words: list[str]) -> int:
        """Runs a builtin, a program or an Android command."""

    def run_isolated(self, work: Callable[[Context], int]) -> int:
        """Runs `work` in a subshell, which cannot change this shell, and returns its exit code."""

    def find(self, word: str) -> str | None:
        """The path of a command, or None."""


def reading(shell: Context, path: str) -> Source:
    """Opens a file for reading. Raises `Failure` if that is impossible."""
    try:
        return Source(files.read(shell.phone, shell.state.path(path)))
    except Failure as failure:
        raise Failure(f"can't open {path}: {failure.reason}") from None


def writing(shell: Context, path: str, append: bool) -> Sink:
    """Opens a file for writing. Raises `Failure` if that is impossible."""
    full = shell.state.path(path)
    if full in ("/dev/null", "/dev/tty"):
        return Sink(shell.budget)
    shell.budget.spend(len(shell.phone.files) >> 3)
    try:
        if path == "" or not files.is_folder(shell.phone, posixpath.dirname(full)):
            raise Failure(": No such file or directory")
        return FileSink(shell.budget, shell.phone, full, append)
    except Failure as failure:
        raise Failure(f"can't create {path}: {failure.reason}") from None
