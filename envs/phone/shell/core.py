"""`Shell`: runs command lines on one phone, and gives back what a real shell would."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, field

from envs.phone.phone import Phone
from envs.phone.shell import activity, inputs, providers, screen, settings, sim, system
from envs.phone.shell.command import Failure, Handler
from envs.phone.shell.files import attributes, is_folder, normal
from envs.phone.shell.lang.builtins import BUILTINS
from envs.phone.shell.lang.interpret import Interpreter
from envs.phone.shell.lang.nodes import Incomplete
from envs.phone.shell.lang.parser import parse
from envs.phone.shell.lang.state import Budget, State
from envs.phone.shell.lang.streams import Sink, Source, to_bytes, to_text
from envs.phone.shell.toybox import PROGRAMS, Call
from envs.phone.shell.toybox.running import script

COMMANDS: dict[str, Handler] = {}
"""The commands of Android. They know nothing of standard input, the folder or variables; `toybox.PROGRAMS` do."""
for _module in (inputs, activity, settings, providers, system, screen, sim):
    COMMANDS.update(_module.COMMANDS)
BIN = "/system/bin/"
ANDROID_WORK, PROGRAM_WORK = 1000, 20
"""Work that a call of a command of Android and of a program counts as."""


@dataclass(frozen=True, slots=True)
class Result:
    """Bytes, because `screencap -p` writes a PNG to its standard output."""

    stdout: bytes
    stderr: bytes
    exit_code: int


@dataclass
class Session:
    """A shell that is used for several lines. `stdin` is what each of them can read; `ended` after `exit`."""

    state: State = field(default_factory=State)
    stdin: bytes = b""
    ended: bool = False


class Shell:
    """The shell of one phone. Same phone and same commands, same bytes: nothing depends on the host."""

    def __init__(self, phone: Phone) -> None:
        self.phone = phone

    def run(self, command: Sequence[str] | str, session: Session | None = None) -> Result:
        """Runs a script, or an argument list as one command as it is. Never raises for what is in it.

        Without a session the script has a shell of its own.
        """
        if not isinstance(command, str):
            return self._words(list(command))
        session = session or Session()
        budget = Budget()
        out, error = Sink(budget), Sink(budget)
        shell = Interpreter(self.phone, session.state, {0: Source(session.stdin), 1: out, 2: error}, budget, Programs())
        session.state.status = code = shell.main(lambda: shell.script(command))
        session.ended = shell.left
        return Result(bytes(out.data), bytes(error.data), code)

    def _words(self, words: list[str]) -> Result:
        if not words:
            return Result(b"", b"", 0)
        handler = COMMANDS.get(words[0].removeprefix(BIN))
        if handler is not None:
            out, error, code = handled(handler, self.phone, words[1:])
            return Result(out, error, code)
        budget = Budget()
        written, errors = Sink(budget), Sink(budget)
        shell = Interpreter(self.phone, State(), {0: Source(), 1: written, 2: errors}, budget, Programs())
        code = shell.main(lambda: shell.command(words))
        return Result(bytes(written.data), bytes(errors.data), code)


def handled(handler: Handler, phone: Phone, words: list[str]) -> tuple[bytes, bytes, int]:
    """Output, errors and exit code of a command of Android."""
    words = [word if word.isascii() else to_bytes(word).decode(errors="replace") for word in words]
    try:
        out = handler(phone, words)
    except Failure as failure:
        message = f"{failure}\n" if str(failure) else ""
        return to_bytes(failure.stdout), to_bytes(message), failure.exit_code
    return out if isinstance(out, bytes) else to_bytes(out), b"", 0


class Programs:
    """What a shell can call besides its builtins and functions. Where the programs are does not depend on `PATH`."""

    builtins = BUILTINS

    def find(self, shell: Interpreter, name: str) -> str | None:
        """The path of a program, None where there is none."""
        if "/" not in name:
            return BIN + name if name in PROGRAMS or name in COMMANDS or name in BUILTINS else None
        path = normal(posixpath.join(shell.state.cwd, name))
        if path in shell.phone.files and attributes(shell.phone, path).mode & 0o111:
            return name
        return name if self._known(path) else None

    def run(self, shell: Interpreter, words: list[str]) -> int:
        name = words[0]
        path = normal(posixpath.join(shell.state.cwd, name)) if "/" in name else BIN + name
        known = self._known(path)
        if known in PROGRAMS:
            return self._program(Call(shell, known, words[1:]))
        if known in COMMANDS:
            shell.budget.spend(ANDROID_WORK)
            out, error, code = handled(COMMANDS[known], shell.phone, words[1:])
            shell.write(1, out)
            shell.write(2, error)
            return code
        if known in BUILTINS:
            return BUILTINS[known](shell, words[1:])
        return self._file(shell, words, path)

    @staticmethod
    def _known(path: str) -> str:
        """The name of a program of the system by its path, "" for any other path."""
        folder, _, name = path.rpartition("/")
        return name if f"{folder}/" == BIN and (name in PROGRAMS or name in COMMANDS or name in BUILTINS) else ""

    @staticmethod
    def _program(call: Call) -> int:
        call.spend(PROGRAM_WORK)
        try:
            PROGRAMS[call.name](call)
        except Failure as failure:
            if str(failure):
                call.shell.write(2, to_bytes(f"{failure}\n"))
            return failure.exit_code
        return call.code

    def _file(self, shell: Interpreter, words: list[str], path: str) -> int:
        """Runs a script among the phone's files."""
        name = words[0]
        if "/" not in name or not name or not (path in shell.phone.files or is_folder(shell.phone, path)):
            shell.complain(f"{name}: inaccessible or not found")
            return 127
        if path not in shell.phone.files:
            shell.complain(f"{name}: can't execute: Is a directory")
            return 126
        if not attributes(shell.phone, path).mode & 0o111:
            shell.complain(f"{name}: can't execute: Permission denied")
            return 126
        data = shell.phone.files[path]
        if b"\0" in data[:256]:
            kind = "64-bit ELF file" if data.startswith(b"\x7fELF") else "binary file"
            shell.complain(f"{name}: not executable: {kind}")
            return 126
        call = Call(shell, name, words[1:])
        script(call, to_text(data), name, words[1:], [])
        return call.code


def incomplete(script: str) -> bool:
    """Whether a script ends inside a quote, a compound command or a here-document."""
    return isinstance(parse(script).fault, Incomplete)
