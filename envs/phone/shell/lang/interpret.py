"""The interpreter, which runs syntax trees on the phone."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import get_args

from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell.android import COMMANDS, run_command
from mobilerl.envs.phone.shell.command import Failure
from mobilerl.envs.phone.shell.lang import syntax
from mobilerl.envs.phone.shell.lang.builtins import BUILTINS
from mobilerl.envs.phone.shell.lang.escapes import to_bytes, to_text
from mobilerl.envs.phone.shell.lang.expand import Expander
from mobilerl.envs.phone.shell.lang.parser import parse
from mobilerl.envs.phone.shell.lang.state import (
    KILLED,
    Budget,
    Exit,
    LimitReached,
    Sink,
    Source,
    State,
    Streams,
    reading,
    writing,
)
from mobilerl.envs.phone.shell.toybox import PROGRAMS, Call

BIN = "/system/bin/"
SHELL = f"{BIN}sh"
ANDROID_WORK, PROGRAM_WORK = 1000, 20
"""Work units charged for a call of an Android command, and of a program."""


class Interpreter:
    """One shell. Subshells are separate interpreters with a copy of the state and the same budget."""

    def __init__(self, phone: Phone, state: State, streams: Streams, budget: Budget) -> None:
        self.phone, self.state, self.streams, self.budget = phone, state, streams, budget
        self.exited = False
        """Whether the script ended with `exit`."""
        self._substituted = 0
        """Exit code of the last command substitution in the current command."""
        self.expand = Expander(phone, state, budget, self.substitute)

    # --- scripts -----------------------------------------------------------------------------------------------

    def main(self, work: Callable[[], int]) -> int:
        """Runs a whole script and returns its exit code, however it ends."""
        try:
            return self._run_guarded(work)
        except (LimitReached, RecursionError) as limit:
            self.budget.bytes = 4096  # for the message
            self.complain(str(limit) if isinstance(limit, LimitReached) else "stopped: nested too deep")
            return KILLED

    def _run_guarded(self, work: Callable[[], int]) -> int:
        try:
            return work() & 0xFF
        except Exit as left:
            self.exited = True
            return left.code & 0xFF
        except Failure as failure:
            self.complain(str(failure))
            return failure.exit_code

    def script(self, text: str) -> int:
        self.budget.spend(len(text) >> 6)
        return self.run(parse(text))

    def complain(self, message: str) -> None:
        self.write(2, to_bytes(f"{SHELL}: {message}\n"))

    def write(self, fd: int, data: bytes) -> None:
        sink = self.streams.get(fd)
        if isinstance(sink, Sink):
            sink.write(data)

    # --- subshells ---------------------------------------------------------------------------------------------

    def run_isolated(self, work: Callable[[Interpreter], int], streams: Streams | None = None) -> int:
        """Runs `work` in a subshell, which cannot change this shell, and returns its exit code."""
        inner = Interpreter(self.phone, self.state.copy(), dict(streams or self.streams), self.budget)
        return inner._run_guarded(lambda: work(inner))

    def substitute(self, body: syntax.Node) -> str:
        """The output of a command substitution."""
        sink = Sink(self.budget)
        self.budget.spend(3)
        self._substituted = self.run_isolated(lambda inner: inner.run(body), {**self.streams, 1: sink})
        return to_text(bytes(sink.data)).replace("\0", "")

    # --- nodes -------------------------------------------------------------------------------------------------

    def run(self, node: syntax.Node) -> int:
        code = self.state.status = _RUNNERS[type(node)](self, node)
        return code

    def _sequence(self, node: syntax.Sequence) -> int:
        code = 0
        for command in node.commands:
            code = self.run(command)
        return code

    def _andor(self, node: syntax.AndOr) -> int:
        code = self.run(node.left)
        return self.run(node.right) if (node.op == "&&") == (code == 0) else code

    def _pipeline(self, node: syntax.Pipeline) -> int:
        """Runs the commands one after the other, each to completion."""
        source, code = self.streams.get(0, Source()), 0
        for command in node.commands[:-1]:
            sink = Sink(self.budget)
            self.run_isolated(methodcaller("run", command), {**self.streams, 0: source, 1: sink})
            source = Source(bytes(sink.data))
        last = node.commands[-1]
        if len(node.commands) == 1:
            code = self.run(last)
        else:
            code = self.run_isolated(lambda inner: inner.run(last), {**self.streams, 0: source})
        return int(code == 0) if node.negated else code

    def _subshell(self, node: syntax.Subshell) -> int:
        return self.run_isolated(lambda inner: inner.run(node.body))

    def _if(self, node: syntax.If) -> int:
        for condition, body in node.branches:
            if condition is None or self.run(condition) == 0:
                return self.run(body)
        return 0

    # --- redirections ------------------------------------------------------------------------------------------

    def _redirected(self, node: syntax.Redirected) -> int:
        return self._under(node.redirects, lambda: self.run(node.body))

    def _under(self, redirects: tuple[syntax.Redirect, ...], work: Callable[[], int]) -> int:
        """Runs `work` with redirected streams. Returns 1 if a redirection fails."""
        before, self.streams = self.streams, dict(self.streams)
        try:
            try:
                for redirect in redirects:
                    self._redirect(redirect)
            except Failure as failure:
                self.complain(str(failure))
                return 1
            return work()
        finally:
            self.streams = before

    def _redirect(self, redirect: syntax.Redirect) -> None:
        """Changes one of the shell's streams. Raises `Failure` if that is impossible."""
        streams, target = self.streams, self.expand.text(redirect.target)
        if redirect.op in (">&", "<&"):
            if not target.isdecimal() or int(target[:9]) not in streams:
                raise Failure(f"{target}: bad file descriptor")
            streams[redirect.fd] = streams[int(target)]
        elif redirect.op == "<":
            streams[redirect.fd] = reading(self, target)
        else:
            streams[redirect.fd] = writing(self, target, redirect.op == ">>")

    # --- commands ----------------------------------------------------------------------------------------------

    def _simple(self, node: syntax.Simple) -> int:
        self.budget.spend(3)
        self._substituted = 0
        words = self.expand.arguments(node.words)
        return self._under(node.redirects, lambda: self._run_assigned(node, words))

    def _run_assigned(self, node: syntax.Simple, words: list[str]) -> int:
        before = {name: self.state.variables.get(name) for name, _ in node.assignments}
        for name, value in node.assignments:
            self.state.assign(name, self.expand.text(value))
        if not words:
            return self._substituted
        try:
            return self.command(words)
        finally:  # assignments before a command apply only to that command
            for name, old in before.items():
                self.state.variables.pop(name, None)
                if old is not None:
                    self.state.variables[name] = old

    def command(self, words: list[str]) -> int:
        """Runs a builtin, a program or an Android command."""
        self.budget.spend(2)
        name = self.name(words[0])
        try:
            if name in BUILTINS:
                return BUILTINS[name](self, words[1:])
            if name in PROGRAMS:
                self.budget.spend(PROGRAM_WORK)
                call = Call(self, name, words[1:])
                PROGRAMS[name](call)
                return call.code
        except Failure as failure:
            prefix = f"{SHELL}: {name}: " if name in BUILTINS else ""
            self.write(2, to_bytes(f"{prefix}{failure}\n" if str(failure) else ""))
            return failure.exit_code
        if name not in COMMANDS:
            self.complain(f"{words[0]}: inaccessible or not found")
            return 127
        self.budget.spend(ANDROID_WORK)
        out, error, code = run_command(self.phone, name, words[1:])
        self.write(1, out)
        self.write(2, error)
        return code

    def find(self, word: str) -> str | None:
        """The path of a command, or None."""
        name = self.name(word)
        known = name in BUILTINS or name in PROGRAMS or name in COMMANDS
        return BIN + name if known else None

    def name(self, word: str) -> str:
        """The name of a command that is given by name or path."""
        if "/" not in word:
            return word
        path = self.state.path(word)
        return path.removeprefix(BIN) if path.startswith(BIN) else ""


_RUNNERS: dict[type, Callable[[Interpreter, syntax.Node], int]] = {
    kind: getattr(Interpreter, f"_{kind.__name__.lower()}") for kind in get_args(syntax.Node)
}
