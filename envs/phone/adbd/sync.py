"""The file service (`sync:`): stat, list, push and pull, in the formats of protocol 1 and of stat_v2/ls_v2."""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from mobilerl.envs.phone.adbd.streams import Stream
from mobilerl.envs.phone.adbd.wire import ProtocolError
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell import files
from mobilerl.envs.phone.shell.command import Failure

Exclusive = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function while nothing else touches the phone, and returns its result."""
CHUNK = 64 * 1024
ENOENT = 2
MAX_PATH = 1024
MAX_FILE = 256 << 20
"""Maximum bytes of a pushed file, since files are kept in the host's memory."""
_REQUEST = struct.Struct("<4sI")
_STAT1 = struct.Struct("<4sIII")
_STAT2 = struct.Struct("<4sIQQIIIIQqqq")
_DENT1 = struct.Struct("<4sIIII")
_DENT2 = struct.Struct("<4sIQQIIIIQqqqI")


class FileStat(NamedTuple):
    mode: int
    size: int
    mtime: int

    def v2(self, name: bytes) -> bytes:
        return _STAT2.pack(name, 0, 0, 0, self.mode, 1, 0, 0, self.size, self.mtime, self.mtime, self.mtime)


def file_stat(phone: Phone, path: str) -> FileStat | None:
    """Attributes of a file or folder; None if the path does not exist."""
    path = files.normal(path)
    if path not in phone.files and not files.is_folder(phone, path):
        return None
    return FileStat(files.mode(phone, path), files.size(phone, path), files.mtime(phone, path))


class SyncService:
    """Serves one `sync:` stream until QUIT or its end. Raises `StreamClosed` when it ends within a request."""

    def __init__(self, phone: Phone, stream: Stream, exclusive: Exclusive) -> None:
        self.phone, self.stream, self._exclusive = phone, stream, exclusive

    async def run(self) -> None:
        while True:
            name, length = _REQUEST.unpack(await self.stream.read_exactly(_REQUEST.size))
            if name == b"QUIT":
                return
            if length > MAX_PATH:
                await self._fail("path too long")
                return
            path = (await self.stream.read_exactly(length)).decode(errors="replace")
            handler = self._HANDLERS.get(name)
            if handler is None:
                await self._fail(f"unknown command {name!r}")
                return
            await handler(self, path)

    async def _stat(self, path: str) -> None:
        found = await self._stat_of(path)
        await self.stream.write(_STAT1.pack(b"STAT", *(found or (0, 0, 0))))

    async def _stat2(self, path: str, name: bytes = b"STA2") -> None:
        found = await self._stat_of(path)
        await self.stream.write(found.v2(name) if found else _STAT2.pack(name, ENOENT, *[0] * 10))

    async def _lstat2(self, path: str) -> None:
        await self._stat2(path, b"LST2")

    async def _stat_of(self, path: str) -> FileStat | None:
        return await self._exclusive(lambda: file_stat(self.phone, path))

    async def _list(self, path: str) -> None:
        for name, found in await self._exclusive(lambda: self._entries(path)):
            head = _DENT1.pack(b"DENT", *found, len(name))
            await self.stream.write(head + name)
        await self.stream.write(_DENT1.pack(b"DONE", 0, 0, 0, 0))

    async def _list2(self, path: str) -> None:
        for name, found in await self._exclusive(lambda: self._entries(path)):
            await self.stream.write(found.v2(b"DNT2") + struct.pack("<I", len(name)) + name)
        await self.stream.write(_DENT2.pack(b"DONE", *[0] * 12))

    def _entries(self, path: str) -> list[tuple[bytes, FileStat]]:
        folder = files.normal(path)
        found = [(n, file_stat(self.phone, posixpath.join(folder, n))) for n in files.entries(self.phone, folder)]
        return [(name.encode(), entry) for name, entry in found if entry]

    async def _receive(self, path: str) -> None:
        """Serves a pull."""
        try:
            data = await self._exclusive(lambda: files.read(self.phone, path))
        except Failure as failure:
            await self._fail(f"open failed: {failure}")
            return
        for start in range(0, len(data), CHUNK):
            part = data[start : start + CHUNK]
            await self.stream.write(_REQUEST.pack(b"DATA", len(part)) + part)
        await self.stream.write(_REQUEST.pack(b"DONE", 0))

    async def _send(self, target: str) -> None:
        """Serves a push: `path,mode`, chunks, DONE. The file is written completely or not at all."""
        path, _, _mode = target.rpartition(",")
        parts: list[bytes] = []
        size = 0
        while True:
            name, length = _REQUEST.unpack(await self.stream.read_exactly(_REQUEST.size))
            if name == b"DONE":
                break
            if name != b"DATA" or length > CHUNK:
                raise ProtocolError(f"sync: {name!r} of {length} bytes inside a push")
            part = await self.stream.read_exactly(length)
            size += length
            if size <= MAX_FILE:
                parts.append(part)
        try:
            if size > MAX_FILE:
                raise Failure(f"{path}: No space left on device")
            await self._exclusive(lambda: files.write(self.phone, path, b"".join(parts)))
        except Failure as failure:
            await self._fail(f"couldn't create file: {failure}")
            return
        await self.stream.write(_REQUEST.pack(b"OKAY", 0))

    async def _fail(self, reason: str) -> None:
        message = reason.encode()
        await self.stream.write(_REQUEST.pack(b"FAIL", len(message)) + message)

    _HANDLERS = {
        b"STAT": _stat,
        b"STA2": _stat2,
        b"LST2": _lstat2,
        b"LIST": _list,
        b"LIS2": _list2,
        b"RECV": _receive,
        b"SEND": _send,
    }
