"""`shell:` and `exec:`: command lines from the host, run on the phone's own shell.

Three forms: `shell:LINE` gives both outputs as they come, `shell,v2,raw:LINE` frames them and ends with the exit code,
`exec:LINE` gives raw bytes. Without a line the service reads commands from the host, one per line.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable

from envs.phone.adbd.streams import Stream
from envs.phone.adbd.wire import ProtocolError
from envs.phone.shell import Result

Run = Callable[[str], Awaitable[Result]]
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN, WINDOW_SIZE = range(6)
_PACKET = struct.Struct("<BI")
MAX_LINE = 1 << 20
PROMPT = b"emu64xa:/ $ "


def packet(kind: int, data: bytes) -> bytes:
    return _PACKET.pack(kind, len(data)) + data


async def plain(stream: Stream, line: str, run: Run) -> None:
    """`shell:` and `exec:`. No exit code."""
    if line:
        result = await run(line)
        await stream.write(result.stdout + result.stderr)
        return
    lines = Lines()
    await stream.write(PROMPT)
    while data := await stream.read():
        for typed in lines.add(data):
            if typed.strip() == "exit":
                return
            result = await run(typed)
            await stream.write(result.stdout + result.stderr + PROMPT)


async def framed(stream: Stream, line: str, run: Run) -> None:
    """`shell,v2`: packets, the last of which holds the exit code."""
    if line:
        code = await _answer(stream, await run(line))
    else:
        code = await _session(stream, run)
    await stream.write(packet(EXIT, bytes([code & 0xFF])))


async def _session(stream: Stream, run: Run) -> int:
    lines, code = Lines(), 0
    while True:
        kind, length = _PACKET.unpack(await stream.read_exactly(_PACKET.size))
        if length > MAX_LINE:
            raise ProtocolError(f"shell: a packet of {length} bytes")
        data = await stream.read_exactly(length)
        if kind not in (STDIN, CLOSE_STDIN):
            continue
        for typed in lines.add(data if kind == STDIN else b"\n"):
            if typed.strip() == "exit":
                return code
            code = await _answer(stream, await run(typed))
        if kind == CLOSE_STDIN:
            return code


async def _answer(stream: Stream, result: Result) -> int:
    for kind, data in ((STDOUT, result.stdout), (STDERR, result.stderr)):
        if data:
            await stream.write(packet(kind, data))
    return result.exit_code


class Lines:
    """Cuts what arrives into lines; a terminal's carriage return ends one as well."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, data: bytes) -> list[str]:
        *whole, self._rest = (self._rest + data).replace(b"\r", b"\n").split(b"\n")
        if len(self._rest) > MAX_LINE:
            raise ProtocolError(f"shell: a line of more than {MAX_LINE} bytes")
        return [line.decode(errors="replace") for line in whole if line.strip()]
