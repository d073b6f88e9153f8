"""`shell:` and `exec:`: scripts from the host, run on the phone's own shell.

`shell:LINE` and `exec:LINE` give both outputs as they come, `shell,v2,raw:LINE` frames them and ends with the code.
Without a line `shell,v2` is an interactive shell: it reads commands from the host and keeps variables and folder until
`exit` or the end of the input. A compound command may go over several lines.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable

from envs.phone.adbd.streams import Stream
from envs.phone.adbd.wire import ProtocolError
from envs.phone.shell import Result, Session, incomplete
from envs.phone.shell.lang.escapes import to_text

Run = Callable[[str, Session | None], Awaitable[Result]]
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN, WINDOW_SIZE = range(6)
_PACKET = struct.Struct("<BI")
MAX_LINE = 1 << 20
MAX_WAITING, MAX_TRIES = 1 << 15, 200
"""Characters, and pieces that arrived, of a command that waits for more lines; a longer one is run as it is."""


def packet(kind: int, data: bytes) -> bytes:
    return _PACKET.pack(kind, len(data)) + data


async def plain(stream: Stream, line: str, run: Run) -> None:
    """`shell:LINE` and `exec:LINE`: both outputs in one, and no exit code."""
    await stream.write((await run(line, Session(merged=True))).stdout)


async def framed(stream: Stream, line: str, run: Run) -> None:
    """`shell,v2`: packets, the last of which holds the exit code."""
    if line:
        code = await _answer(stream, await run(line, None))
    else:
        code = await _session(stream, run)
    await stream.write(packet(EXIT, bytes([code & 0xFF])))


async def _session(stream: Stream, run: Run) -> int:
    typed = Typed()
    while not typed.session.ended:
        kind, length = _PACKET.unpack(await stream.read_exactly(_PACKET.size))
        if length > MAX_LINE:
            raise ProtocolError(f"shell: a packet of {length} bytes")
        data = await stream.read_exactly(length)
        if kind == STDIN:
            scripts = typed.add(data)
        elif kind == CLOSE_STDIN:
            scripts, typed.session.ended = typed.rest(), True
        else:
            continue
        for script in scripts:
            await _answer(stream, await run(script, typed.session))
            if typed.session.ended:
                break
    return typed.session.state.status


async def _answer(stream: Stream, result: Result) -> int:
    for kind, data in ((STDOUT, result.stdout), (STDERR, result.stderr)):
        if data:
            await stream.write(packet(kind, data))
    return result.exit_code


class Typed:
    """Collects what is typed until it is whole commands; a terminal's carriage return ends a line as well."""

    def __init__(self) -> None:
        self.session = Session()
        self._bytes = b""
        self._lines, self._tries = "", 0

    def add(self, data: bytes) -> list[str]:
        """What can be run with these bytes: all lines, unless the last command waits for more."""
        *whole, self._bytes = (self._bytes + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if len(self._bytes) + len(self._lines) > MAX_LINE:
            raise ProtocolError(f"shell: a command of more than {MAX_LINE} bytes")
        self._lines += "".join(f"{to_text(line)}\n" for line in whole)
        if not whole or not self._lines.strip():
            return []
        self._tries += 1
        if incomplete(self._lines) and self._tries < MAX_TRIES and len(self._lines) < MAX_WAITING:
            return []
        script, self._lines, self._tries = self._lines, "", 0
        return [script]

    def rest(self) -> list[str]:
        """What is left when the input ends, complete or not."""
        script, self._lines, self._bytes = self._lines + to_text(self._bytes), "", b""
        return [script] if script.strip() else []
