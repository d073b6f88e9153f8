"""Where commands read from and write to."""

from __future__ import annotations

from envs.phone.phone import Phone
from envs.phone.shell import files
from envs.phone.shell.lang.state import Budget


def to_bytes(text: str) -> bytes:
    """Bytes of a file that are not UTF-8 pass through text unchanged, as lone surrogates."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def to_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


class Source:
    """Input. Commands that share it each go on where the one before stopped."""

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
    """Output kept in memory: a pipe, or what the host receives."""

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
    """A file opened for writing. What is written is in the file after `flush`, which the interpreter calls in time."""

    def __init__(self, budget: Budget, phone: Phone, path: str, append: bool) -> None:
        super().__init__(budget)
        self._phone, self._path = phone, path
        if not append or path not in phone.files:
            files.write(phone, path, b"")

    def write(self, data: bytes) -> None:
        super().write(data)
        self._budget.unwritten.append(self)

    def flush(self) -> None:
        if self.data and self._path in self._phone.files:
            files.write(self._phone, self._path, bytes(self.data), append=True)
        self.data.clear()
