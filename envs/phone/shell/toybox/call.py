"""How a program is called, and how it reads its options."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from envs.phone.phone import Phone
from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.lang.interpret import Interpreter
from envs.phone.shell.lang.streams import Source, to_bytes, to_text

Flags = dict[str, str]
"""Options that were given; one with a value has it, one without has its letter as often as it was given."""


@dataclass(slots=True)
class Call:
    """One call of a program: its words, the shell that runs it, and through that the phone, the folder and the streams.

    `code` is the exit code; `wrong` sets it to 1 and says why.
    """

    shell: Interpreter
    name: str
    words: list[str]
    code: int = 0

    @property
    def phone(self) -> Phone:
        return self.shell.phone

    def out(self, data: str | bytes) -> None:
        self.shell.write(1, to_bytes(data) if isinstance(data, str) else data)

    def wrong(self, message: str) -> None:
        self.shell.write(2, to_bytes(f"{self.name}: {message}\n"))
        self.code = 1

    def spend(self, work: int) -> None:
        self.shell.budget.spend(work)

    def walk(self) -> None:
        """Counts the work of looking at all files' names."""
        self.spend(1 + (len(self.phone.files) >> 4))

    def stdin(self) -> bytes:
        source = self.shell.streams.get(0)
        data = source.read() if isinstance(source, Source) else b""
        self.spend(len(data) >> 12)
        return data

    def path(self, word: str) -> str:
        return files.normal(posixpath.join(self.shell.state.cwd, word))

    def read(self, word: str) -> bytes:
        """A file's content, or standard input for `-`. `Failure` names the file as it was given."""
        if word == "-":
            return self.stdin()
        try:
            data = files.read(self.phone, self.path(word))
        except Failure as failure:
            raise Failure(f"{self.name}: {word}: {str(failure).rpartition(': ')[2]}") from None
        self.spend(1 + (len(data) >> 12))
        return data

    def inputs(self, words: list[str]) -> Iterator[tuple[str, bytes]]:
        """The files' names and contents, standard input without any; says which cannot be read, and goes on."""
        for word in words or ["-"]:
            try:
                yield word, self.read(word)
            except Failure as failure:
                self.wrong(str(failure).removeprefix(f"{self.name}: "))

    def write(self, word: str, data: bytes) -> None:
        """`Failure` names the file as it was given."""
        path = self.path(word)
        try:
            if not files.is_folder(self.phone, posixpath.dirname(path)):
                raise Failure("No such file or directory")
            self.shell.budget.take(len(data))
            files.write(self.phone, path, data)
        except Failure as failure:
            raise Failure(f"{self.name}: {word}: {str(failure).rpartition(': ')[2]}") from None

    def options(self, spec: str, least: int = 0) -> tuple[Flags, list[str]]:
        """Options and operands. A colon in `spec` follows the letters that have a value, a star those whose values
        are collected, one a line; a leading `+` ends the options at the first operand."""
        flags: Flags = {}
        operands: list[str] = []
        words = iter(self.words)
        for word in words:
            if word == "--":
                operands += words
            elif not word.startswith("-") or word == "-":
                operands.append(word)
                if spec.startswith("+"):
                    operands += words
            elif not word.startswith("--"):
                self._cluster(word[1:], spec, words, flags)
        if len(operands) < least:
            raise Failure(f'{self.name}: Needs {least} argument{"s" * (least > 1)} (see "{self.name} --help")')
        return flags, operands

    def _cluster(self, letters: str, spec: str, words: Iterator[str], flags: Flags) -> None:
        for i, letter in enumerate(letters):
            at = spec.find(letter) if letter not in "+:*" else -1
            if at < 0:
                raise Failure(f"{self.name}: Unknown option '{letter}' (see \"{self.name} --help\")")
            if spec[at + 1 : at + 2] == ":":
                value = letters[i + 1 :] or next(words, None)
                if value is None:
                    raise Failure(f'{self.name}: Missing argument to -{letter} (see "{self.name} --help")')
                flags[letter] = value
                return
            if spec[at + 1 : at + 2] == "*":
                value = letters[i + 1 :] or next(words, "")
                flags[letter] = f"{flags[letter]}\n{value}" if letter in flags else value
                return
            flags[letter] = flags.get(letter, "") + letter

    def number(self, text: str) -> int:
        if not text.lstrip("+-").isdecimal() or len(text) > 12:
            raise Failure(f"{self.name}: bad number '{text}'")
        return int(text)


def lines_of(data: bytes) -> list[str]:
    """The lines without their newlines."""
    text = to_text(data)
    return text.removesuffix("\n").split("\n") if text else []


Program = Callable[[Call], None]
