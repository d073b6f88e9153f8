"""What a shell session remembers, what a run may use up, and how control leaves a command."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from envs.phone.shell.lang.nodes import Function

MAX_WORK = 1_000_000
"""Work that one line may do, in units of about 10 microseconds of a slow processor."""
MAX_BYTES = 128 << 20
"""Bytes that one line may write, to files, pipes and outputs together."""
MAX_DEPTH = 30
"""Functions, sourced scripts and substitutions within each other."""
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


class LimitReached(Exception):
    """The line used up what it may. Everything of it ends, with exit code 137."""


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
    """What is left of a line's work and bytes."""

    def __init__(self) -> None:
        self.work, self.bytes, self.depth = MAX_WORK, MAX_BYTES, 0
        self.unwritten: list[Any] = []
        """Files that were written to since the last `flush`."""

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
    readonly: set[str] = field(default_factory=set)
    functions: dict[str, Function] = field(default_factory=dict)
    name: str = "/system/bin/sh"
    parameters: list[str] = field(default_factory=list)
    options: set[str] = field(default_factory=set)
    status: int = 0
    pid: int = 4242
    random: int = 4242

    def copy(self) -> State:
        return replace(
            self,
            variables=dict(self.variables),
            exported=set(self.exported),
            readonly=set(self.readonly),
            functions=dict(self.functions),
            parameters=list(self.parameters),
            options=set(self.options),
        )

    def assign(self, name: str, value: str) -> None:
        if name in self.readonly:
            raise ShellFault(f"read-only: {name}", 2)
        self.variables[name] = value
        if len(value) > 4096 and sum(map(len, self.variables.values())) > MAX_VARIABLES:
            del self.variables[name]
            raise ShellFault("the variables need too much memory")

    def unset(self, name: str) -> None:
        if name in self.readonly:
            raise ShellFault(f"read-only: {name}", 2)
        self.variables.pop(name, None)
        self.exported.discard(name)

    def special(self, name: str) -> str | None:
        """The value of `$?`, `$#` and the others that no assignment made. `$RANDOM` repeats from session to session."""
        if name == "?":
            return str(self.status)
        if name == "#":
            return str(len(self.parameters))
        if name in ("$", "!"):
            return str(self.pid)
        if name == "-":
            return "h" + "".join(letter for letter, option in OPTIONS.items() if option in self.options)
        if name == "RANDOM":
            self.random = (self.random * 1103515245 + 12345) & 0x7FFFFFFF
            return str(self.random >> 16 & 0x7FFF)
        return {"PPID": str(self.pid - 1), "USER_ID": "0"}.get(name)
