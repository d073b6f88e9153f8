"""A `Transport` over a real adb server, for emulators, real phones and served embedded phones.

adbutils talks to the server. Only the output of the shell is read here, because adbutils' own reader has no deadline
for a device that keeps sending, and takes quadratic time for screenshots.
"""

from __future__ import annotations

import io
import shlex
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from subprocess import SubprocessError

from adbutils import AdbClient, AdbConnection, AdbError

from mobilerl.envs.base import InfraError, ShellResult
from mobilerl.envs.serials import address_of, server_address

CONNECT_TIMEOUT_S = 10.0
FILE_TIMEOUT_S = 60.0
"""Longest silence of a device during a push, and longest duration of a pull."""
_STDOUT, _STDERR, _EXIT = 1, 2, 3
_PACKET = struct.Struct("<BI")
_SYNC = struct.Struct("<4sI")
MAX_ANSWER = 256 << 20
"""Maximum bytes of one answer, so that a device that never stops sending cannot fill this machine's memory."""
MAX_LINE = 60_000
"""Maximum bytes of a command: adb sends the length of a request as four hexadecimal digits."""
_FAULTS = (AdbError, OSError, EOFError, AssertionError, RuntimeError, ValueError, struct.error, SubprocessError)
"""Exceptions that adbutils raises when a server or a device is gone or stops in the middle of a reply."""


class AdbTransport:
    """One device of an adb server. `serial` is its name in `adb devices`; `HOST:PORT` devices are connected on demand.

    If there is no server on this machine, adbutils starts one at the port of ANDROID_ADB_SERVER_PORT or adb's default.
    Servers are never killed, because they may serve other people's devices.
    """

    def __init__(self, serial: str, host: str | None = None, port: int | None = None) -> None:
        self.serial = serial
        self._client = AdbClient(host, port, socket_timeout=FILE_TIMEOUT_S)
        self._device = self._client.device(serial)

    def connect(self) -> None:
        """Makes sure that the device is online. Stale connections, which adb itself notices late, are replaced."""
        if self.state() == "device":
            return
        if ":" not in self.serial:
            raise InfraError(f"{self.serial}: {self.state() or 'not attached'}")
        with self._faults("connect"):
            self._client.disconnect(self.serial)
            said = self._client.connect(self.serial, timeout=CONNECT_TIMEOUT_S)
        if self.state() != "device":
            raise InfraError(f"{self.serial}: cannot connect: {said.strip()}")

    def disconnect(self) -> None:
        """Makes the server forget a HOST:PORT device, which it would otherwise try to reach forever."""
        if ":" in self.serial:
            with self._faults("disconnect"):
                self._client.disconnect(self.serial)

    @property
    def unique_name(self) -> str:
        """Names the device among those of all adb servers."""
        server = server_address(self._client.host, self._client.port)
        return f"device {address_of(self.serial)} of the adb server {server}"

    def state(self) -> str:
        """`device`, `offline`, `unauthorized`, or "" when the server does not know the device."""
        with self._faults("devices"):
            return list_attached(self._client).get(self.serial, "")

    def shell(self, cmd: Sequence[str] | str, timeout: float = 10.0) -> ShellResult:
        out: dict[int, list[bytes]] = {_STDOUT: [], _STDERR: []}
        with self._service(f"shell,v2,raw:{_line(cmd)}", timeout) as answer:
            while True:
                kind, length = _PACKET.unpack(answer.exactly(_PACKET.size))
                data = answer.exactly(length)
                if kind == _EXIT:
                    return ShellResult(_text(out[_STDOUT]), _text(out[_STDERR]), data[0] if data else 255)
                if kind in out:
                    out[kind].append(data)

    def exec_out(self, cmd: Sequence[str] | str, timeout: float = 10.0) -> bytes:
        """Standard output and standard error together, as bytes."""
        with self._service(f"exec:{_line(cmd)}", timeout) as answer:
            return answer.rest()

    def push(self, data: bytes, path: str) -> None:
        with self._faults(f"push to {path}"):
            self._device.sync.push(io.BytesIO(data), path, check=True)

    def pull(self, path: str) -> bytes:
        # Not adbutils' own pull: a device that keeps sending would fill this machine's memory.
        name = path.encode(errors="replace")
        parts: list[bytes] = []
        with self._service("sync:", FILE_TIMEOUT_S, f"pull {path}") as answer:
            answer.send(_SYNC.pack(b"RECV", len(name)) + name)
            while True:
                kind, length = _SYNC.unpack(answer.exactly(_SYNC.size))
                if kind == b"DONE":
                    return b"".join(parts)
                data = answer.exactly(length)
                if kind != b"DATA":
                    raise EOFError(data.decode(errors="replace"))
                parts.append(data)

    @contextmanager
    def _service(self, service: str, timeout: float, what: str = "") -> Iterator[_Answer]:
        with self._faults(what or f"`{service.partition(':')[2][:40]}`"):
            answer = self._open(timeout)
            try:
                answer.request(service)
                yield answer
            finally:
                answer.close()

    def _open(self, timeout: float) -> _Answer:
        """Opens a connection to the device, which is connected first if needed (nothing was sent yet then)."""
        try:
            return self._switch(timeout)
        except (EOFError, OSError) as fault:
            if ":" not in self.serial or isinstance(fault, TimeoutError):
                raise
        self.connect()
        return self._switch(timeout)

    def _switch(self, timeout: float) -> _Answer:
        # Not AdbDevice.open_transport: it asks for the server's version first, over a connection of its own.
        answer = _Answer(self._client.make_connection(timeout=timeout), timeout)
        try:
            answer.request(f"host:transport:{self.serial}")
        except BaseException:
            answer.close()
            raise
        return answer

    @contextmanager
    def _faults(self, what: str) -> Iterator[None]:
        try:
            yield
        except InfraError:
            raise
        except _FAULTS as error:
            raise InfraError(f"{self.serial}: {what} failed: {_reason(error)}") from error


def list_attached(client: AdbClient) -> dict[str, str]:
    """State of each attached device by serial. Unlike adbutils' own list it also reads serials with spaces."""
    with client.make_connection() as connection:
        connection.send_command("host:devices")
        connection.check_okay()
        lines = connection.read_string_block().splitlines()
    return {serial: state for serial, _, state in (line.partition("\t") for line in lines) if serial}


class _Answer:
    """One connection to the server, with a deadline."""

    def __init__(self, connection: AdbConnection, timeout: float) -> None:
        self._connection = connection
        self._socket: socket.socket = connection.conn
        self._timeout, self._until = timeout, time.monotonic() + timeout
        self._room = MAX_ANSWER

    def request(self, text: str) -> None:
        self._connection.send_command(text)
        if self.exactly(4) != b"OKAY":
            reason = self.exactly(int(self.exactly(4), 16))
            raise EOFError(reason.decode(errors="replace"))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close(self) -> None:
        """Closes the socket itself, because AdbConnection.close sleeps 10 ms."""
        self._socket.close()

    def exactly(self, size: int) -> bytes:
        parts, missing = [], size
        while missing:
            part = self._receive(min(missing, 1 << 20))
            if not part:
                raise EOFError("the device closed the connection in mid-answer")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def rest(self) -> bytes:
        parts = []
        while part := self._receive(1 << 20):
            parts.append(part)
        return b"".join(parts)

    def _receive(self, most: int) -> bytes:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no end after {self._timeout:g} s")
        self._socket.settimeout(left)
        part = self._socket.recv(most)
        self._room -= len(part)
        if self._room < 0:
            raise EOFError(f"an answer of more than {MAX_ANSWER >> 20} MB")
        return part


def _line(cmd: Sequence[str] | str) -> str:
    """The command line to send. Sequences are quoted word by word: text from a model can never become a command."""
    if not isinstance(cmd, str):
        cmd = shlex.join(cmd)
    if "\0" in cmd or len(cmd.encode(errors="replace")) > MAX_LINE:
        raise ValueError(f"a command must hold no NUL characters and at most {MAX_LINE} bytes")
    return cmd


def _text(parts: list[bytes]) -> str:
    return b"".join(parts).decode(errors="replace")


def _reason(error: Exception) -> str:
    words = str(error) or type(error).__name__
    return words.splitlines()[0][:200]
