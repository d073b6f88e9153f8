"""`shell:` and `exec:`: scripts from the host, run on the phone's own shell.

`shell:LINE` and `exec:LINE` merge both outputs; `shell,v2,raw:LINE` sends them in packets and ends with the exit code.
Without a line, `shell,v2` is an interactive shell, which reads commands from the host and keeps its variables and
folder until `exit` or the end of the input.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable

from mobilerl.envs.phone.adbd.streams import Stream
from mobilerl.envs.phone.adbd.wire import ProtocolError
from mobilerl.envs.phone.shell import Result, Session
from mobilerl.envs.phone.shell.lang.escapes import to_text

Run = Callable[[str, Session | None], Awaitable[Result]]
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN, WINDOW_SIZE = range(6)
_PACKET = struct.Struct("<BI")
MAX_LINE = 1 << 20


def packet(kind: int, data: bytes) -> bytes:
    return _PACKET.pack(kind, len(data)) + data


async def serve_plain(stream: Stream, line: str, run: Run) -> None:
    """`shell:LINE` and `exec:LINE`: both outputs merged, without an exit code."""
    await stream.write((await run(line, Session(merged=True))).stdout)


async def serve_framed(stream: Stream, line: str, run: Run) -> None:
    """`shell,v2`: packets, the last of which holds the exit code."""
    if line:
        code = await _answer(stream, await run(line, None))
    else:
        code = await _session(stream, run)
    await stream.write(packet(EXIT, bytes([code & 0xFF])))


async def _session(stream: Stream, run: Run) -> int:
    """Runs each line as it arrives. A carriage return from a terminal also ends a line."""
    session, pending = Session(), b""
    while not session.ended:
        kind, length = _PACKET.unpack(await stream.read_exactly(_PACKET.size))
        if length + len(pending) > MAX_LINE:
            raise ProtocolError(f"shell: a line of more than {MAX_LINE} bytes")
        data = await stream.read_exactly(length)
        if kind not in (STDIN, CLOSE_STDIN):
            continue
        *lines, pending = (pending + (data if kind == STDIN else b"\n")).replace(b"\r", b"\n").split(b"\n")
        for line in filter(None, lines):
            await _answer(stream, await run(to_text(line), session))
            if session.ended:
                break
        session.ended = session.ended or kind == CLOSE_STDIN
    return session.state.status


async def _answer(stream: Stream, result: Result) -> int:
    for kind, data in ((STDOUT, result.stdout), (STDERR, result.stderr)):
        if data:
            await stream.write(packet(kind, data))
    return result.exit_code
