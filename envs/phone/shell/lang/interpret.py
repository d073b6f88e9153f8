"""The interpreter: runs syntax trees on the phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import get_args

from envs.phone.phone import Phone
from envs.phone.shell import files
from envs.phone.shell.android import COMMANDS, run_command
from envs.phone.shell.command import Failure
from envs.phone.shell.lang import syntax
from envs.phone.shell.lang.arith import ArithmeticFault
from envs.phone.shell.lang.builtins import BUILTINS
from envs.phone.shell.lang.escapes import to_bytes, to_text
from envs.phone.shell.lang.expand import Expander
from envs.phone.shell.lang.parser import parse
from envs.phone.shell.lang.state import (
    KILLED,
    Budget,
    Leave,
    LimitReached,
    ShellFault,
    Sink,
    Source,
    State,
    Streams,
    reading,
    writing,
)
from envs.phone.shell.regex import RegexFault, glob
from envs.phone.shell.toybox import PROGRAMS, Call

BIN = "/system/bin/"
ANDROID_WORK, PROGRAM_WORK = 1000, 20
"""Work that a call of a command of Android and of a program costs."""
DECLARING = ("export", "local", "typeset")
FATAL = frozenset(". break continue eval exec exit export return set shift unset :".split())
"""Builtins that end the script if they cannot be redirected."""


class Interpreter:
    """One shell. Subshells are interpreters of their own, with a copy of the state and the same budget."""

    def __init__(self, phone: Phone, state: State, streams: Streams, budget: Budget) -> None:
        self.phone, self.state, self.streams, self.budget = phone, state, streams, budget
        self.loops = self.functions = 0
        """Number of loops and functions around the running command."""
        self.locals: list[dict[str, str | None]] = []
        self.exited = False
        """Whether the script ended with `exit`."""
        self.keeping = False
        """Set by `exec > file`: the redirections that are in force outlast their command."""
        self._tested = 0
        """Number of conditions around the running command: a failure inside does not end a script under `set -e`."""
        self._substituted: int | None = None
        """Exit code of the last command substitution of the running command."""
        self.expand = Expander(self)

    # --- scripts -----------------------------------------------------------------------------------------------

    def main(self, work: Callable[[], int]) -> int:
        """Runs a whole script and returns its exit code, whichever way it ends."""
        try:
            code = self._guarded(work)
        except (LimitReached, RecursionError) as limit:
            self.budget.bytes = 4096  # for the message
            self.complain(str(limit) if isinstance(limit, LimitReached) else "stopped: nested too deep")
            code = KILLED
        return code & 0xFF

    def _guarded(self, work: Callable[[], int]) -> int:
        try:
            return work()
        except Leave as leave:
            self.exited = leave.kind == "exit"
            return leave.value if leave.kind in ("exit", "return") else self.state.status
        except (ShellFault, ArithmeticFault, RegexFault) as fault:
            self.complain(str(fault))
            return fault.code if isinstance(fault, ShellFault) else 1

    def script(self, text: str) -> int:
        """Runs lines up to the first that cannot be parsed. `ShellFault` for that one."""
        parsed = parse(text)
        self.budget.spend(len(text) >> 6)
        code = self._sequence(syntax.Sequence(parsed.lines))
        if parsed.fault is not None:
            raise ShellFault(str(parsed.fault))
        return code

    def complain(self, message: str) -> None:
        self.write(2, to_bytes(f"{self.state.name}: {message}\n"))

    def write(self, fd: int, data: bytes) -> None:
        sink = self.streams.get(fd)
        if isinstance(sink, Sink):
            sink.write(data)

    # --- subshells ---------------------------------------------------------------------------------------------

    def isolated(self, work: Callable[[Interpreter], int], streams: Streams | None = None) -> int:
        """Runs `work` in a subshell, which cannot change this shell, and returns its exit code."""
        streams = dict(self.streams) if streams is None else streams
        inner = Interpreter(self.phone, self.state.copy(), streams, self.budget)
        inner.functions, inner._tested = self.functions, self._tested
        return inner._guarded(lambda: work(inner)) & 0xFF

    def substitute(self, body: syntax.Node) -> str:
        """The output of a command substitution."""
        sink = Sink(self.budget)
        self.budget.spend(3)
        self._substituted = self.isolated(lambda inner: inner.run(body), {**self.streams, 1: sink})
        return to_text(bytes(sink.data)).replace("\0", "")

    def folders(self) -> dict[str, list[str]]:
        """The names in every folder of the phone."""
        self.budget.spend(len(self.phone.files) >> 4)
        return files.folders(self.phone)

    # --- nodes -------------------------------------------------------------------------------------------------

    def run(self, node: syntax.Node) -> int:
        code = self.state.status = _RUNNERS[type(node)](self, node)
        return code

    def _sequence(self, node: syntax.Sequence) -> int:
        code = 0
        for command in node.commands:
            code = self.run(command)
        return code

    def _condition(self, node: syntax.Node) -> int:
        """Runs a command whose failure does not end a script under `set -e`."""
        self._tested += 1
        try:
            return self.run(node)
        finally:
            self._tested -= 1

    def _checked(self, code: int) -> int:
        """Ends the script under `set -e` when a command failed outside a condition."""
        if code and "errexit" in self.state.options and not self._tested:
            raise Leave("exit", code)
        return code

    def _andor(self, node: syntax.AndOr) -> int:
        code = 0
        for op, command in (("&&", node.first), *node.rest[:-1]):
            if (op == "&&") == (code == 0):
                code = self._condition(command)
        op, last = node.rest[-1]
        return self.run(last) if (op == "&&") == (code == 0) else code

    def _pipeline(self, node: syntax.Pipeline) -> int:
        """The commands run one after the other, each to its end."""
        if len(node.commands) == 1:
            return int(self._condition(node.commands[0]) == 0)
        source, code, failed = self.streams.get(0, Source()), 0, 0
        for i, command in enumerate(node.commands):
            streams = {**self.streams, 0: source}
            sink = Sink(self.budget)
            if i < len(node.commands) - 1:
                streams[1] = sink
            code = self.isolated(lambda inner, command=command: inner.run(command), streams)
            failed = code or failed
            source = Source(bytes(sink.data))
        if "pipefail" in self.state.options:
            code = failed
        return int(code == 0) if node.negated else self._checked(code)

    def _subshell(self, node: syntax.Subshell) -> int:
        if node.background:
            self.isolated(lambda inner: inner.run(node.body), {**self.streams, 0: Source()})
            return 0
        return self._checked(self.isolated(lambda inner: inner.run(node.body)))

    def _if(self, node: syntax.If) -> int:
        for condition, body in node.branches:
            if self._condition(condition) == 0:
                return self.run(body)
        return self.run(node.otherwise)

    def _for(self, node: syntax.For) -> int:
        words = self.state.parameters if node.words is None else self.expand.arguments(node.words)
        values = iter(list(words))

        def assign() -> bool:
            for value in values:
                self.state.assign(node.name, value)
                return True
            return False

        return self._loop(assign, node.body)

    def _while(self, node: syntax.While) -> int:
        return self._loop(lambda: (self._condition(node.condition) == 0) != node.until, node.body)

    def _loop(self, condition: Callable[[], bool], body: syntax.Node) -> int:
        code = 0
        self.loops += 1
        try:
            while True:
                self.budget.spend(5)
                try:
                    if not condition():
                        return code
                    code = self.run(body)
                except Leave as leave:
                    if leave.kind not in ("break", "continue"):
                        raise
                    if leave.value > 1 and self.loops > 1:
                        raise Leave(leave.kind, leave.value - 1) from None
                    code = 0
                    if leave.kind == "break":
                        return code
        finally:
            self.loops -= 1

    def _case(self, node: syntax.Case) -> int:
        subject = self.expand.text(node.subject)
        for patterns, body in node.items:
            self.budget.spend(1 + (len(subject) >> 10))
            if any(glob(self.expand.pattern(p)).fullmatch(subject) for p in patterns):
                return self.run(body)
        return 0

    def _function(self, node: syntax.Function) -> int:
        self.state.functions[node.name] = node
        return 0

    # --- redirections ------------------------------------------------------------------------------------------

    def _redirected(self, node: syntax.Redirected) -> int:
        with self._with_redirects(node.redirects) as good:
            return self.run(node.body) if good else 1

    @contextmanager
    def _with_redirects(self, redirects: Sequence[syntax.Redirect]) -> Iterator[bool]:
        """Redirects the shell's streams inside; False, after a message on stderr, where one cannot be redirected."""
        if not redirects:
            yield True
            return
        before, self.streams = self.streams, dict(self.streams)
        self.keeping = False
        good = True
        try:
            try:
                for redirect in redirects:
                    self._redirect(redirect)
            except Failure as failure:
                good = False
                self.complain(str(failure))
            yield good
        finally:
            if not self.keeping:
                self.streams = before
            self.keeping = False

    def _redirect(self, redirect: syntax.Redirect) -> None:
        """Changes one of the shell's streams. `Failure` where that is not possible."""
        streams, op, fd = self.streams, redirect.op, redirect.fd
        if redirect.document is not None:
            streams[fd] = Source(to_bytes(self.expand.text(redirect.document.body)))
            return
        target = self.expand.text(redirect.target)
        if op in (">&", "<&") and target == "-":
            streams.pop(fd, None)
        elif op in (">&", "<&"):
            if not target.isdecimal() or int(target[:9]) not in streams:
                raise Failure(f"{target}: bad file descriptor")
            streams[fd] = streams[int(target)]
        elif op == "<":
            streams[fd] = reading(self, target)
        elif op == "&>":
            streams[1] = streams[2] = writing(self, target, append=False)
        else:
            streams[fd] = writing(self, target, op == ">>")

    # --- simple commands ---------------------------------------------------------------------------------------

    def _simple(self, node: syntax.Simple) -> int:
        self.budget.spend(3)
        self._substituted = None
        first = node.words[0].plain if node.words else None
        words = self.expand.arguments(node.words, declaring=first in DECLARING)
        with self._with_redirects(node.redirects) as good:
            if not good:
                if words and words[0] in FATAL:
                    raise Leave("return" if self.functions else "exit", 1)
                return self._checked(1)
            if not words:
                for assignment in node.assignments:
                    self._assign(assignment)
                return self._checked(self._substituted or 0)
            saved = []
            for one in node.assignments:
                saved.append((one.name, self.state.variables.get(one.name), one.name in self.state.exported))
                self._assign(one)
                self.state.exported.add(one.name)
            try:
                return self._checked(self.command(words))
            finally:
                for name, value, exported in reversed(saved):
                    self._set(name, value)
                    if not exported:
                        self.state.exported.discard(name)

    def _assign(self, assignment: syntax.Assignment) -> None:
        value = self.expand.text(assignment.value)
        if assignment.append:
            value = self.state.variables.get(assignment.name, "") + value
        self.state.assign(assignment.name, value)

    def _set(self, name: str, value: str | None) -> None:
        self.state.variables.pop(name, None)
        if value is not None:
            self.state.variables[name] = value

    # --- commands ----------------------------------------------------------------------------------------------

    def command(self, words: list[str], functions: bool = True) -> int:
        """Runs a function, a builtin, a program, a command of Android or a script among the phone's files."""
        self.budget.spend(2)
        if functions and (function := self.state.functions.get(words[0])):
            return self._call(function, words[1:])
        name = self._known(words[0])
        if name in BUILTINS:
            try:
                return BUILTINS[name](self, words[1:])
            except Failure as failure:
                self.complain(f"{name}: {failure}")
                return failure.exit_code
        if name in PROGRAMS:
            self.budget.spend(PROGRAM_WORK)
            call = Call(self, name, words[1:])
            try:
                PROGRAMS[name](call)
            except Failure as failure:
                self.write(2, to_bytes(f"{failure}\n" if str(failure) else ""))
                return failure.exit_code
            return call.code
        if name in COMMANDS:
            self.budget.spend(ANDROID_WORK)
            out, error, code = run_command(self.phone, name, words[1:])
            self.write(1, out)
            self.write(2, error)
            return code
        return self._file(words)

    def _known(self, name: str) -> str:
        """The name of a builtin, a program or a command of Android that was called by its name or its path."""
        if "/" not in name:
            return name
        path = self.state.path(name)
        return path.removeprefix(BIN) if path.startswith(BIN) else ""

    def find(self, name: str) -> str | None:
        """The path of a program; None where there is none."""
        known = self._known(name)
        if known in PROGRAMS or known in COMMANDS or known in BUILTINS:
            return name if "/" in name else BIN + name
        path = self.state.path(name)
        runs = "/" in name and path in self.phone.files and files.attributes(self.phone, path).mode & 0o111
        return name if runs else None

    def _file(self, words: list[str]) -> int:
        """Runs a script among the phone's files."""
        name, fault = words[0], ""
        path = self.state.path(name)
        if "/" not in name or not files.exists(self.phone, path):
            self.complain(f"{name}: inaccessible or not found")
            return 127
        if path not in self.phone.files:
            fault = "can't execute: Is a directory"
        elif not files.attributes(self.phone, path).mode & 0o111:
            fault = "can't execute: Permission denied"
        elif b"\0" in self.phone.files[path][:256]:
            fault = "not executable: binary file"
        if fault:
            self.complain(f"{name}: {fault}")
            return 126
        return self.separate(to_text(self.phone.files[path]), name, words[1:])

    def separate(self, text: str, name: str, arguments: list[str]) -> int:
        """Runs a script in a shell of its own, which inherits the exported variables."""

        def work(inner: Interpreter) -> int:
            state = inner.state
            state.variables = {n: v for n, v in state.variables.items() if n in state.exported or n in ("IFS", "PWD")}
            state.functions, state.options = {}, set()
            state.name, state.parameters = name, arguments
            inner.functions = 0
            return inner.script(text)

        return self.isolated(work)

    def _call(self, function: syntax.Function, arguments: list[str]) -> int:
        loops, self.loops = self.loops, 0
        self.locals.append({})
        try:
            return self.returning(lambda: self.run(function.body), arguments)
        finally:
            self.loops = loops
            for name, value in self.locals.pop().items():
                self._set(name, value)

    def returning(self, work: Callable[[], int], arguments: list[str]) -> int:
        """Runs a function or a sourced script with its own positional parameters, up to its `return`."""
        outer, self.state.parameters = self.state.parameters, arguments
        self.functions += 1
        try:
            return work()
        except Leave as leave:
            if leave.kind != "return":
                raise
            return leave.value
        finally:
            self.functions -= 1
            self.state.parameters = outer


_RUNNERS: dict[type, Callable[[Interpreter, syntax.Node], int]] = {
    kind: getattr(Interpreter, f"_{kind.__name__.lower()}") for kind in get_args(syntax.Node)
}
