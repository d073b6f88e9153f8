"""How programs are called and parse their options."""

from __future__ import annotations

import getopt
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell import files
from mobilerl.envs.phone.shell.command import Failure
from mobilerl.envs.phone.shell.lang.escapes import to_bytes, to_text
from mobilerl.envs.phone.shell.lang.state import Context, Source

MISSING = "No such file or directory"
Flags = dict[str, str]
"""Option letters -> values; "" for an option without a value."""


@dataclass(slots=True)
class Call:
    """One call of a program: its arguments, its exit code, and the shell with the phone, current folder and streams."""

    shell: Context
    name: str
    words: list[str]
    code: int = 0

    @property
    def phone(self) -> Phone:
        return self.shell.phone

    def out(self, data: str | bytes) -> None:
        self.shell.write(1, to_bytes(data) if isinstance(data, str) else data)

    def fail(self, message: str) -> None:
        """Prints an error and sets the exit code; the program goes on."""
        self.shell.write(2, to_bytes(f"{self.name}: {message}\n"))
        self.code = 1

    def spend(self, work: int) -> None:
        self.shell.budget.spend(work)

    def stdin(self) -> bytes:
        source = self.shell.streams.get(0)
        data = source.read() if isinstance(source, Source) else b""
        self.spend(len(data) >> 12)
        return data

    def path(self, word: str) -> str:
        self.spend(1 + (len(self.phone.files) >> 4))  # the callers search the names of all files
        return self.shell.state.path(word)

    def existing(self, words: list[str]) -> Iterator[tuple[str, str]]:
        """Names and paths of the arguments that exist. The others are reported as errors."""
        for word in words:
            path = self.path(word)
            if files.exists(self.phone, path):
                yield word, path
            else:
                self.fail(f"{word}: {MISSING}")

    def read(self, word: str) -> bytes:
        """Content of a file, or standard input for `-`. Raises `Failure` with the name as given."""
        if word == "-":
            return self.stdin()
        try:
            data = files.read(self.phone, self.path(word))
        except Failure as failure:
            raise Failure(f"{self.name}: {word}: {failure.reason}") from None
        self.spend(1 + (len(data) >> 12))
        return data

    def inputs(self, words: list[str]) -> Iterator[tuple[str, bytes]]:
        """Names and contents of the files, or of standard input if there are none. Unreadable files are reported."""
        for word in words or ["-"]:
            try:
                yield word, self.read(word)
            except Failure as failure:
                self.fail(str(failure).removeprefix(f"{self.name}: "))

    def options(self, spec: str, least: int = 0) -> tuple[Flags, list[str]]:
        """Parses options and operands. `spec` is in the format of `getopt`."""
        found, operands = self.parse_repeated(spec, least)
        return dict(found), operands

    def parse_repeated(self, spec: str, least: int = 0) -> tuple[list[tuple[str, str]], list[str]]:
        """Like `options`, with every occurrence of an option that may be given several times."""
        try:
            found, operands = getopt.gnu_getopt(self.words, spec)
        except getopt.GetoptError as error:
            raise Failure(f"{self.name}: {error.msg}") from None
        if len(operands) < least:
            raise Failure(f"{self.name}: Needs {least} argument{'s' * (least > 1)}")
        return [(option[1:], value) for option, value in found], operands

    def number(self, text: str) -> int:
        if not text.lstrip("+-").isdecimal() or len(text) > 12:
            raise Failure(f"{self.name}: bad number '{text}'")
        return int(text)


def lines_of(data: bytes) -> list[str]:
    """The lines without their newlines."""
    text = to_text(data)
    return text.removesuffix("\n").split("\n") if text else []


Program = Callable[[Call], None]
