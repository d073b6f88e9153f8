"""Messages of adb's device protocol: a header of 24 bytes, little-endian, then the payload.

    command  arg0  arg1  length  checksum  magic = command ^ 0xffffffff

The checksum is the sum of the payload's bytes; it is not checked from version 0x01000001 on.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass

VERSION = 0x01000001
MAX_PAYLOAD = 1 << 20
HEADER = struct.Struct("<6I")

CNXN, AUTH, OPEN, OKAY, WRTE, CLSE = (
    int.from_bytes(name, "little") for name in (b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"WRTE", b"CLSE")
)
AUTH_TOKEN, AUTH_SIGNATURE, AUTH_PUBLIC_KEY = 1, 2, 3


class ProtocolError(Exception):
    """The peer violates adb's protocol. The connection is closed, and the phone keeps running."""


@dataclass(frozen=True, slots=True)
class Message:
    command: int
    arg0: int
    arg1: int
    data: bytes = b""

    def encode(self) -> bytes:
        checksum = sum(self.data) & 0xFFFFFFFF if len(self.data) < 4096 else 0
        return (
            HEADER.pack(self.command, self.arg0, self.arg1, len(self.data), checksum, self.command ^ 0xFFFFFFFF)
            + self.data
        )


async def read_message(reader: asyncio.StreamReader) -> Message:
    """Reads a message. Raises IncompleteReadError at the end of the connection, ProtocolError for invalid data."""
    command, arg0, arg1, length, _checksum, magic = HEADER.unpack(await reader.readexactly(HEADER.size))
    if magic != command ^ 0xFFFFFFFF:
        raise ProtocolError(f"a header's magic is {magic:#x}, not the complement of {command:#x}")
    if length > MAX_PAYLOAD:
        raise ProtocolError(f"a payload of {length} bytes is announced; at most {MAX_PAYLOAD} were agreed")
    return Message(command, arg0, arg1, await reader.readexactly(length) if length else b"")
