"""`Shell`: runs command lines on one phone, with the results of a real shell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell.android import COMMANDS, run_command
from mobilerl.envs.phone.shell.lang.interpret import BIN, Interpreter
from mobilerl.envs.phone.shell.lang.state import Budget, Sink, Source, State


@dataclass(frozen=True, slots=True)
class Result:
    """Output is in bytes, because `screencap -p` writes a PNG to standard output."""

    stdout: bytes
    stderr: bytes
    exit_code: int


@dataclass
class Session:
    """A shell for several lines. With `merged`, errors go to standard output, in order. `exit` sets `ended`."""

    state: State = field(default_factory=State)
    merged: bool = False
    ended: bool = False


class Shell:
    """The shell of one phone. It is deterministic: the same commands give the same bytes, whatever the host."""

    def __init__(self, phone: Phone) -> None:
        self.phone = phone

    def run(self, command: Sequence[str] | str, session: Session | None = None) -> Result:
        """Runs a script, or one command given as a list of arguments. Never raises.

        Without a session the script gets a shell of its own.
        """
        if isinstance(command, str):
            return self._run(lambda shell: shell.script(command), session or Session())
        words = list(command)
        if not words:
            return Result(b"", b"", 0)
        if (name := words[0].removeprefix(BIN)) in COMMANDS:
            return Result(*run_command(self.phone, name, words[1:]))
        return self._run(lambda shell: shell.command(words), Session())

    def _run(self, work: Callable[[Interpreter], int], session: Session) -> Result:
        budget = Budget()
        out = Sink(budget)
        error = out if session.merged else Sink(budget)
        shell = Interpreter(self.phone, session.state, {0: Source(), 1: out, 2: error}, budget)
        session.state.status = code = shell.main(lambda: work(shell))
        session.ended = shell.exited
        return Result(bytes(out.data), b"" if session.merged else bytes(error.data), code)
