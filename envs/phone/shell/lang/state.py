"""What a shell session remembers, what a run may consume, and how control leaves a command."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from envs.phone.phone import Phone
from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.lang.syntax import Function

if TYPE_CHECKING:
    from envs.phone.shell.lang.interpret import Interpreter

MAX_WORK = 1_000_000
"""Work that one line may do, in units of about 10 microseconds of a slow processor."""
MAX_BYTES = 128 << 20
"""Bytes that one line may write to files, pipes and outputs together."""
MAX_WORD = 1 << 20
"""Characters of one expanded word."""
MAX_VARIABLES = 16 << 20
"""Characters of all variables of a session."""
KILLED = 137
ENVIRONMENT = {
    "PATH": "/product/bin:/apex/com.android.runtime/bin:/system/bin:/system/xbin:/vendor/bin",
    **{"HOME": "/", "USER": "root", "LOGNAME": "root", "SHELL": "/system/bin/sh", "TERM": "dumb"},
    **{"HOSTNAME": "emu64xa", "ANDROID_ROOT": "/system", "ANDROID_DATA": "/data"},
    **{"TMPDIR": "/data/local/tmp", "EXTERNAL_STORAGE": "/sdcard"},
}
DEFAULTS = {"IFS": " \t\n", "PWD": "/", "KSH_VERSION": "@(#)MIRBSD KSH R59 2020/10/31 Android"}
OPTIONS = {"e": "errexit", "f": "noglob", "u": "nounset"}
PID = 4242


class LimitReached(Exception):
    """The line exhausted its budget. All of it ends, with exit code 137."""


class ShellFault(Exception):
    """An error that ends the script."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class Leave(Exception):
    """`exit`, `return`, `break` and `continue`. `kind` is the command's name, `value` its number."""

    def __init__(self, kind: str, value: int) -> None:
        super().__init__(kind)
        self.kind, self.value = kind, value


class Budget:
    """The work and bytes that a line has left."""

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
    """Variables, folder and functions of one shell. A subshell works on a copy."""

    cwd: str = "/"
    variables: dict[str, str] = field(default_factory=lambda: ENVIRONMENT | DEFAULTS)
    exported: set[str] = field(default_factory=lambda: set(ENVIRONMENT))
    functions: dict[str, Function] = field(default_factory=dict)
    name: str = "/system/bin/sh"
    parameters: list[str] = field(default_factory=list)
    options: set[str] = field(default_factory=set)
    status: int = 0

    def copy(self) -> State:
        return replace(
            self,
            variables=dict(self.variables),
            exported=set(self.exported),
            functions=dict(self.functions),
            parameters=list(self.parameters),
            options=set(self.options),
        )

    def path(self, word: str) -> str:
        """The canonical path of a word, which may be relative to the current folder."""
        return files.normal(posixpath.join(self.cwd, word))

    def assign(self, name: str, value: str) -> None:
        self.variables[name] = value
        if len(value) > 4096 and sum(map(len, self.variables.values())) > MAX_VARIABLES:
            del self.variables[name]
            raise ShellFault("the variables need too much memory")

    def get(self, name: str) -> str | None:
        """The value of `$name`; None where it is not set."""
        if name in self.variables:
            return self.variables[name]
        if name.isdigit():
            number = int(name[:9])
            values = [self.name, *self.parameters]
            return values[number] if number < len(values) else None
        special = {"?": self.status, "#": len(self.parameters), "$": PID, "!": PID}
        return str(special[name]) if name in special else None


# --- streams -----------------------------------------------------------------------------------------------------


class Source:
    """Input. Commands that share it each continue where the previous one stopped."""

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
    """Output kept in memory: a pipe, or the output that the host receives."""

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


def reading(shell: Interpreter, path: str) -> Source:
    """A file opened for reading. `Failure` where that is not possible."""
    full = shell.state.path(path)
    if path and files.is_folder(shell.phone, full):
        return Source()  # it can be opened; reading it fails, which no program here reports
    try:
        return Source(files.read(shell.phone, full))
    except Failure as failure:
        raise Failure(f"can't open {path}: {failure.reason}") from None


def writing(shell: Interpreter, path: str, append: bool) -> Sink:
    """A file opened for writing. `Failure` where that is not possible."""
    full = shell.state.path(path)
    if full in ("/dev/null", "/dev/tty"):
        return Null(shell.budget)
    shell.budget.spend(len(shell.phone.files) >> 3)
    try:
        if path == "" or not files.is_folder(shell.phone, posixpath.dirname(full)):
            raise Failure(": No such file or directory")
        return FileSink(shell.budget, shell.phone, full, append)
    except Failure as failure:
        raise Failure(f"can't create {path}: {failure.reason}") from None
