"""The emulator's console: a line protocol on TCP, for what adb cannot do (snapshots, location, text messages)."""

from __future__ import annotations

import socket
from io import BufferedIOBase
from pathlib import Path

from mobilerl.envs.base import InfraError

TOKEN_FILE = Path.home() / ".emulator_console_auth_token"
MAX_ANSWER = 1 << 20


class Console:
    """Opens a connection for every command, as `adb emu` does. `token` None: read from the user's token file."""

    def __init__(self, host: str, port: int, token: str | None = None, timeout_s: float = 60.0) -> None:
        self.address, self.timeout_s = (host, port), timeout_s
        if token is None:
            token = TOKEN_FILE.read_text().strip() if TOKEN_FILE.is_file() else ""
        self._token = token

    def command(self, line: str) -> str:
        """The command's answer without the final OK. Raises InfraError for KO, no answer, or no connection."""
        where = f"console {self.address[0]}:{self.address[1]}"
        if "\n" in line or "\r" in line:
            raise ValueError(f"{where}: a command is one line")
        try:
            with socket.create_connection(self.address, self.timeout_s) as connection:
                answers = connection.makefile("rb")
                _answer(answers)  # the greeting
                if self._token:
                    connection.sendall(f"auth {self._token}\r\n".encode())
                    _answer(answers)
                connection.sendall(f"{line}\r\n".encode())
                return _answer(answers)
        except (OSError, EOFError) as error:
            raise InfraError(f"{where}: `{line[:40]}` failed: {error or type(error).__name__}") from None


def _answer(lines: BufferedIOBase) -> str:
    """Reads the lines up to OK."""
    said: list[str] = []
    size = 0
    while True:
        line = lines.readline(MAX_ANSWER)
        size += len(line)
        if not line.endswith(b"\n") or size > MAX_ANSWER:
            raise EOFError("the console closed the connection in mid-answer")
        text = line.decode(errors="replace").rstrip("\r\n")
        if text == "OK":
            return "\n".join(said)
        if text.startswith("KO"):
            raise EOFError(text)
        said.append(text)
