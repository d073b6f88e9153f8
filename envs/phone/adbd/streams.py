"""One stream of an adb connection: the two-way byte channel of a service, with adb's flow control.

After sending WRTE, a side waits for OKAY before it sends more. OKAY for received data is sent when the service has read
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mobilerl.envs.phone.adbd.wire import CLSE, MAX_PAYLOAD, OKAY, WRTE, Message, ProtocolError

Send = Callable[[Message], Awaitable[None]]


class StreamClosed(Exception):
    """The host closed the stream, or its connection is gone."""


class Stream:
    """`local` and `remote` are the stream's numbers on the device and on the host."""

    def __init__(self, local: int, remote: int, send: Send, max_payload: int = MAX_PAYLOAD) -> None:
        self.local, self.remote = local, remote
        self._send, self._max = send, max_payload
        self._received: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._acknowledged = True
        self._rest = memoryview(b"")
        self._may_write = asyncio.Event()
        self._may_write.set()
        self.closed = False

    async def read_exactly(self, size: int) -> bytes:
        """Reads exactly `size` bytes. Raises `StreamClosed` if there are fewer."""
        parts, missing = [], size
        while missing:
            if not self._rest:
                self._rest = memoryview(await self._read())
            parts.append(bytes(self._rest[:missing]))
            self._rest = self._rest[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    async def _read(self) -> bytes:
        """Reads the next bytes from the host, however many there are."""
        data = None if self.closed and self._received.empty() else await self._received.get()
        if not data:
            raise StreamClosed
        self._acknowledged = True
        if not self.closed:
            await self._send(Message(OKAY, self.local, self.remote))
        return data

    async def write(self, data: bytes) -> None:
        """Sends all of `data`, in pieces of the agreed size. Raises `StreamClosed`."""
        for start in range(0, len(data), self._max):
            await self._may_write.wait()
            if self.closed:
                raise StreamClosed
            self._may_write.clear()
            await self._send(Message(WRTE, self.local, self.remote, data[start : start + self._max]))

    async def close(self) -> None:
        """Closes this side after the host has read everything."""
        if not self.closed:
            await self._may_write.wait()
        if not self.closed:
            self.closed = True
            await self._send(Message(CLSE, self.local, self.remote))

    def on_data(self, data: bytes) -> None:
        """Raises ProtocolError if earlier data is not acknowledged yet: adb sends one piece at a time."""
        if not self._acknowledged:
            raise ProtocolError("the host sent WRTE without waiting for OKAY")
        self._acknowledged = False
        self._received.put_nowait(data)

    def on_okay(self) -> None:
        self._may_write.set()

    def on_close(self) -> None:
        self.closed = True
        self._may_write.set()
        self._received.put_nowait(None)
