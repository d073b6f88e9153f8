"""`Shell`: finds the command, runs it on the phone, and gives back what a real shell would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envs.phone.phone import Phone
from envs.phone.shell import activity, files, inputs, providers, screen, settings, sim, system
from envs.phone.shell.command import Failure, Handler
from envs.phone.shell.line import Command, SyntaxFault, split

COMMANDS: dict[str, Handler] = {}
for _module in (inputs, activity, settings, providers, system, screen, files, sim):
    COMMANDS.update(_module.COMMANDS)


@dataclass(frozen=True, slots=True)
class Result:
    """Bytes, because `screencap -p` writes a PNG to its standard output."""

    stdout: bytes
    stderr: bytes
    exit_code: int


class Shell:
    """The shell of one phone. Same phone and same commands, same bytes: nothing depends on the host."""

    def __init__(self, phone: Phone) -> None:
        self.phone = phone

    def run(self, command: Sequence[str] | str) -> Result:
        """Runs an argument list as it is, or a line split like a shell's. Never raises for what is in it."""
        if not isinstance(command, str):
            return self._simple(list(command))
        try:
            commands = split(command)
        except SyntaxFault as fault:
            return Result(b"", f"/system/bin/sh: {fault}\n".encode(), 1)
        out, err, code = b"", b"", 0
        for part in commands:
            if (part.when == "&&" and code != 0) or (part.when == "||" and code == 0):
                continue
            result = self._redirected(part)
            out, err, code = out + result.stdout, err + result.stderr, result.exit_code
        return Result(out, err, code)

    def _redirected(self, part: Command) -> Result:
        result = self._simple(part.words)
        out, err, code = result.stdout, result.stderr, result.exit_code
        if part.merge_errors:
            out, err = out + err, b""
        elif part.drop_errors:
            err = b""
        if part.target == "/dev/null":
            out = b""
        elif part.target:
            try:
                files.write(self.phone, part.target, out, append=part.append)
            except Failure as failure:
                return Result(b"", f"/system/bin/sh: can't create {failure}\n".encode(), 1)
            out = b""
        return Result(out, err, code)

    def _simple(self, words: list[str]) -> Result:
        if not words:
            return Result(b"", b"", 0)
        handler = COMMANDS.get(words[0].removeprefix("/system/bin/"))
        if handler is None:
            return Result(b"", _bytes(f"/system/bin/sh: {words[0]}: inaccessible or not found\n"), 127)
        try:
            out = handler(self.phone, words[1:])
        except Failure as failure:
            return Result(_bytes(failure.stdout), _bytes(f"{failure}\n" if str(failure) else ""), failure.exit_code)
        return Result(out if isinstance(out, bytes) else _bytes(out), b"", 0)


def _bytes(text: str) -> bytes:
    return text.encode(errors="replace")
