"""The interpreter: runs syntax trees on the phone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from envs.phone.phone import Phone
from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.lang import nodes
from envs.phone.shell.lang.arith import ArithmeticFault
from envs.phone.shell.lang.expand import Expander
from envs.phone.shell.lang.parser import parse
from envs.phone.shell.lang.state import KILLED, MAX_DEPTH, Budget, Leave, LimitReached, ShellFault, State
from envs.phone.shell.lang.streams import Sink, Source, redirected, to_bytes, to_text
from envs.phone.shell.regex import RegexFault, glob

Streams = dict[int, Source | Sink]


class KeepStreams(Exception):
    """`exec` without a command: the redirections stay."""


class Commands(Protocol):
    """What can be called besides functions."""

    builtins: Mapping[str, Callable[[Interpreter, list[str]], int]]

    def run(self, shell: Interpreter, words: list[str]) -> int:
        """Runs a program, and gives its exit code."""

    def find(self, shell: Interpreter, name: str) -> str | None:
        """The path of a program."""


DECLARING = ("export", "readonly", "local", "typeset", "declare")
SPECIAL = frozenset(": . break continue eval exec exit export readonly return set shift unset".split())
"""Builtins whose assignments stay."""


class Interpreter:
    """One shell. Subshells are interpreters of their own, with a copy of the state and the same budget."""

    def __init__(self, phone: Phone, state: State, streams: Streams, budget: Budget, commands: Commands) -> None:
        self.phone, self.state, self.streams, self.budget, self.commands = phone, state, streams, budget, commands
        self.loops = self.functions = 0
        """How many loops and functions the running command is in."""
        self.locals: list[dict[str, str | None]] = []
        self.keeping = False
        """Set by `exec > file`: the redirections that are in force outlast their command."""
        self._tested = 0
        self._substituted: int | None = None
        self.expand = Expander(state, budget, self._folders, self._substitute, state.special)

    # --- scripts -----------------------------------------------------------------------------------------------

    def main(self, work: Callable[[], int]) -> int:
        """Runs a whole script, with everything that may end it, and gives the exit code."""
        try:
            code = self._guarded(work)
        except (LimitReached, RecursionError) as limit:
            self.budget.bytes = 4096  # for the message
            self.complain(str(limit) if isinstance(limit, LimitReached) else "stopped: nested too deep")
            code = KILLED
        self.flush()
        return code & 0xFF

    left = False
    """Whether the script was left by `exit`."""

    def _guarded(self, work: Callable[[], int]) -> int:
        self.left = False
        try:
            return work()
        except Leave as leave:
            self.left = leave.kind == "exit"
            return leave.value if leave.kind in ("exit", "return") else self.state.status
        except (ShellFault, ArithmeticFault, RegexFault) as fault:
            self.complain(str(fault))
            return fault.code if isinstance(fault, ShellFault) else 1

    def script(self, text: str) -> int:
        """Runs lines up to the first that cannot be parsed. `ShellFault` for that one."""
        parsed = parse(text)
        self.budget.spend(len(text) >> 6)
        code = self._all(parsed.lines)
        if parsed.fault is not None:
            raise ShellFault(str(parsed.fault))
        return code

    def complain(self, message: str) -> None:
        self.write(2, to_bytes(f"{self.state.name}: {message}\n"))

    def write(self, fd: int, data: bytes) -> None:
        sink = self.streams.get(fd)
        if isinstance(sink, Sink):
            sink.write(data)

    def flush(self) -> None:
        while self.budget.unwritten:
            self.budget.unwritten.pop().flush()

    # --- subshells ---------------------------------------------------------------------------------------------

    def isolated(self, work: Callable[[Interpreter], int], streams: Streams | None = None) -> int:
        """Runs `work` in a subshell; nothing but its exit code comes out."""
        streams = dict(self.streams) if streams is None else streams
        inner = Interpreter(self.phone, self.state.copy(), streams, self.budget, self.commands)
        inner.functions, inner._tested = self.functions, self._tested
        with self.deeper():
            code = inner._guarded(lambda: work(inner)) & 0xFF
        inner.flush()
        return code

    @contextmanager
    def deeper(self):
        self.budget.depth += 1
        if self.budget.depth > MAX_DEPTH:
            raise LimitReached(f"stopped: nested more than {MAX_DEPTH} deep")
        try:
            yield
        finally:
            self.budget.depth -= 1

    def _substitute(self, lines: Sequence[nodes.Node]) -> str:
        sink = Sink(self.budget)
        self.budget.spend(3)
        self._substituted = self.isolated(lambda inner: inner._all(lines), {**self.streams, 1: sink})
        return to_text(bytes(sink.data)).replace("\0", "")

    def _folders(self) -> dict[str, list[str]]:
        self.flush()
        self.budget.spend(len(self.phone.files) >> 4)
        return files.folders(self.phone)

    # --- nodes -------------------------------------------------------------------------------------------------

    def run(self, node: nodes.Node) -> int:
        code = self.state.status = _RUNNERS[type(node)](self, node)
        return code

    def _all(self, commands: Sequence[nodes.Node]) -> int:
        code = 0
        for command in commands:
            code = self.run(command)
        return code

    def _and_or(self, node: nodes.AndOr) -> int:
        code = 0
        for op, command in (("&&", node.first), *node.rest[:-1]):
            if (op == "&&") == (code == 0):
                with self._testing():
                    code = self.run(command)
        op, last = node.rest[-1]
        return self.run(last) if (op == "&&") == (code == 0) else code

    @contextmanager
    def _testing(self):
        """A command whose failure is looked at does not end a script under `set -e`."""
        self._tested += 1
        try:
            yield
        finally:
            self._tested -= 1

    def _pipeline(self, node: nodes.Pipeline) -> int:
        """The commands run one after the other, each to its end."""
        if len(node.commands) == 1:
            with self._testing():
                return int(self.run(node.commands[0]) == 0)
        source, code, failed = self.streams.get(0, Source()), 0, 0
        for i, command in enumerate(node.commands):
            streams = {**self.streams, 0: source}
            sink = Sink(self.budget)
            if i < len(node.commands) - 1:
                streams[1] = sink
            self.flush()
            code = self.isolated(lambda inner, command=command: inner.run(command), streams)
            failed = code or failed
            source = Source(bytes(sink.data))
        if "pipefail" in self.state.options:
            code = failed
        return int(code == 0) if node.negated else self._checked(code)

    def _checked(self, code: int) -> int:
        """Ends the script under `set -e` when a command failed and nobody looks."""
        if code and "errexit" in self.state.options and not self._tested:
            raise Leave("exit", code)
        return code

    def _subshell(self, node: nodes.Subshell) -> int:
        if node.background:
            self.isolated(lambda inner: inner.run(node.body), {**self.streams, 0: Source()})
            return 0
        return self._checked(self.isolated(lambda inner: inner.run(node.body)))

    def _if(self, node: nodes.If) -> int:
        for condition, body in node.branches:
            with self._testing():
                met = self.run(condition) == 0
            if met:
                return self.run(body)
        return self.run(node.otherwise) if node.otherwise else 0

    def _for(self, node: nodes.For) -> int:
        words = list(self.state.parameters) if node.words is None else self.expand.arguments(node.words)

        def assign() -> bool:
            if words:
                self.state.assign(node.name, words.pop())
                return True
            return False

        words.reverse()
        return self._loop(assign, node.body)

    def _while(self, node: nodes.While) -> int:
        def condition() -> bool:
            with self._testing():
                return (self.run(node.condition) == 0) != node.until

        return self._loop(condition, node.body)

    def _loop(self, goes_on: Callable[[], bool], body: nodes.Node) -> int:
        code = 0
        self.loops += 1
        try:
            while True:
                self.budget.spend(5)
                try:
                    if not goes_on():
                        break
                    code = self.run(body)
                except Leave as leave:
                    code = 0
                    if self._leaves_loop(leave):
                        break
        finally:
            self.loops -= 1
        return code

    def _leaves_loop(self, leave: Leave) -> bool:
        """Whether `break` or `continue` ends this loop; raises it again where it is meant for an outer one."""
        if leave.kind not in ("break", "continue"):
            raise leave
        if leave.value > 1 and self.loops > 1:
            raise Leave(leave.kind, leave.value - 1)
        return leave.kind == "break"

    def _case(self, node: nodes.Case) -> int:
        subject = self.expand.text(node.subject)
        for patterns, body in node.items:
            self.budget.spend(1 + (len(subject) >> 10))
            if any(glob(self.expand.pattern(p)).fullmatch(subject) for p in patterns):
                return self.run(body) if body else 0
        return 0

    def _calculation(self, node: nodes.Calculation) -> int:
        self.budget.spend(3)
        try:
            return self._checked(int(self.expand.arithmetic(node.expression) == 0))
        except ArithmeticFault as fault:
            self.complain(str(fault))
            return self._checked(2)

    def _redirected(self, node: nodes.Redirected) -> int:
        with redirected(self, node.redirects) as good:
            return self.run(node.body) if good else 1

    # --- simple commands ---------------------------------------------------------------------------------------

    def _simple(self, node: nodes.Simple) -> int:
        self.budget.spend(3)
        self._substituted = None
        first = node.words[0].plain if node.words else None
        words = self.expand.arguments(node.words, declaring=first in DECLARING)
        with redirected(self, node.redirects) as good:
            if not good:
                if words and words[0] in SPECIAL:
                    raise Leave("exit", 1)
                return self._checked(1)
            if not words:
                for assignment in node.assignments:
                    self._assign(assignment)
                return self._checked(self._substituted or 0)
            saved = self._assigned(node.assignments) if node.assignments else None
            try:
                return self._checked(self.command(words))
            except KeepStreams:
                self.keeping = True
                return 0
            finally:
                if saved is not None and words[0] not in SPECIAL and words[0] not in self.state.functions:
                    self._restore(saved)

    def _assign(self, assignment: nodes.Assignment) -> None:
        value = self.expand.text(assignment.value)
        if assignment.append:
            value = self.state.variables.get(assignment.name, "") + value
        self.state.assign(assignment.name, value)

    def _assigned(self, assignments: Sequence[nodes.Assignment]) -> list[tuple[str, str | None, bool]]:
        saved = []
        for one in assignments:
            saved.append((one.name, self.state.variables.get(one.name), one.name in self.state.exported))
            self._assign(one)
            self.state.exported.add(one.name)
        return saved

    def _restore(self, saved: list[tuple[str, str | None, bool]]) -> None:
        for name, value, exported in reversed(saved):
            if value is None:
                self.state.variables.pop(name, None)
            else:
                self.state.variables[name] = value
            if not exported:
                self.state.exported.discard(name)

    def command(self, words: list[str], functions: bool = True) -> int:
        """Runs one command by its words."""
        self.budget.spend(2)
        if functions and (function := self.state.functions.get(words[0])):
            return self.call(function, words[1:])
        if builtin := self.commands.builtins.get(words[0]):
            try:
                return builtin(self, words[1:])
            except Failure as failure:
                self.complain(f"{words[0]}: {failure}")
                return failure.exit_code
        self.flush()
        return self.commands.run(self, words)

    def call(self, function: nodes.Function, arguments: list[str]) -> int:
        outer, loops = self.state.parameters, self.loops
        self.state.parameters, self.loops = arguments, 0
        self.functions += 1
        self.locals.append({})
        try:
            with self.deeper():
                return self.run(function.body)
        except Leave as leave:
            if leave.kind != "return":
                raise
            return leave.value
        finally:
            self.state.parameters, self.loops = outer, loops
            self.functions -= 1
            for name, value in self.locals.pop().items():
                self.state.variables.pop(name, None)
                if value is not None:
                    self.state.variables[name] = value


_RUNNERS: dict[type, Callable[[Interpreter, nodes.Node], int]] = {
    nodes.Simple: Interpreter._simple,
    nodes.Sequence: lambda shell, node: shell._all(node.commands),
    nodes.AndOr: Interpreter._and_or,
    nodes.Pipeline: Interpreter._pipeline,
    nodes.Subshell: Interpreter._subshell,
    nodes.If: Interpreter._if,
    nodes.For: Interpreter._for,
    nodes.While: Interpreter._while,
    nodes.Case: Interpreter._case,
    nodes.Function: lambda shell, node: int(shell.state.functions.update({node.name: node}) is not None),
    nodes.Calculation: Interpreter._calculation,
    nodes.Redirected: Interpreter._redirected,
}
