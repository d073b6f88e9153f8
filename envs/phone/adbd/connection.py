"""One host's connection to one phone: handshake, streams, and which service answers which request."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Protocol

from envs.phone.adbd import services, shell_service, wire
from envs.phone.adbd.auth import TOKEN_SIZE, PublicKey, accepts
from envs.phone.adbd.streams import Stream, StreamClosed
from envs.phone.adbd.sync import Exclusive, SyncService
from envs.phone.adbd.wire import MAX_PAYLOAD, Message, ProtocolError, read_message
from envs.phone.shell import Result, Shell

FEATURES = "shell_v2,cmd,stat_v2,ls_v2,fixed_push_mkdir"
"""Only what is implemented: the host then uses plain SEND/RECV, and one WRTE at a time."""
MAX_STREAMS = 256
HELLO_TIMEOUT_S = 30.0
"""Timeout of the first message."""


class Host(Protocol):
    """The phone, as its connections see it."""

    shell: Shell
    keys: tuple[PublicKey, ...] | None
    banner: str
    exclusive: Exclusive

    async def run_line(self, line: str) -> Result: ...
    async def before(self, what: str) -> object: ...
    def reboot(self) -> None: ...


class Connection:
    """Serves a connected adb server until it leaves."""

    def __init__(self, phone: Host, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._phone = phone
        self._reader, self._writer = reader, writer
        self._streams: dict[int, Stream] = {}
        self._services: dict[int, asyncio.Task[None]] = {}
        self._reversed: services.Reversed = {}
        self._numbers = 0
        self._max = MAX_PAYLOAD

    async def serve(self) -> None:
        try:
            await self._handshake()
            while True:
                await self._dispatch(await read_message(self._reader))
        except (asyncio.IncompleteReadError, OSError, ProtocolError):
            pass  # the host left, or is no adb: the phone waits for the next one
        finally:
            for stream in self._streams.values():
                stream.on_close()
            services = list(self._services.values())
            for service in services:
                service.cancel()
            await asyncio.gather(*services, return_exceptions=True)
            self._writer.close()

    async def _handshake(self) -> None:
        async with asyncio.timeout(HELLO_TIMEOUT_S):
            hello = await read_message(self._reader)
        if hello.command != wire.CNXN:
            raise ProtocolError("the host did not start with CNXN")
        self._max = min(MAX_PAYLOAD, max(hello.arg1, 4096))
        if self._phone.keys is not None:
            await self._authorize(self._phone.keys)
        banner = f"{self._phone.banner}features={FEATURES}".encode()
        await self._send(Message(wire.CNXN, wire.VERSION, MAX_PAYLOAD, banner))

    async def _authorize(self, keys: tuple[PublicKey, ...]) -> None:
        """Returns once the host may connect; an unknown host is left waiting, as before an unanswered dialog."""
        while True:
            token = os.urandom(TOKEN_SIZE)
            await self._send(Message(wire.AUTH, wire.AUTH_TOKEN, 0, token))
            answer = await read_message(self._reader)
            while answer.command == wire.AUTH and answer.arg0 == wire.AUTH_PUBLIC_KEY:
                answer = await read_message(self._reader)
            if answer.command != wire.AUTH or answer.arg0 != wire.AUTH_SIGNATURE:
                raise ProtocolError("the host did not answer AUTH")
            if accepts(keys, token, answer.data):
                return

    async def _dispatch(self, message: Message) -> None:
        if message.command == wire.OPEN:
            await self._open(message)
            return
        stream = self._streams.get(message.arg1)
        if stream is None:
            if message.command == wire.WRTE:  # a stream that this side has closed
                await self._send(Message(wire.CLSE, 0, message.arg0))
        elif message.command == wire.WRTE:
            stream.on_data(message.data)
        elif message.command == wire.OKAY:
            stream.on_okay()
        elif message.command == wire.CLSE:
            stream.on_close()
            if service := self._services.get(stream.local):
                service.cancel()  # as a real shell hangs up; what began on the phone is finished

    async def _open(self, message: Message) -> None:
        service = message.data.rstrip(b"\0").decode(errors="replace")
        handler = self._handler(service)
        if handler is None or len(self._streams) >= MAX_STREAMS:
            await self._send(Message(wire.CLSE, 0, message.arg0))
            return
        self._numbers += 1
        stream = self._streams[self._numbers] = Stream(self._numbers, message.arg0, self._send, self._max)
        await self._send(Message(wire.OKAY, stream.local, stream.remote))
        number = stream.local
        self._services[number] = asyncio.create_task(self._serve_stream(stream, service, handler))
        self._services[number].add_done_callback(lambda _: self._services.pop(number))

    async def _serve_stream(self, stream: Stream, service: str, handler: _Handler) -> None:
        try:
            await handler(self, stream, service)
        except (StreamClosed, OSError):
            pass
        except ProtocolError:
            self._writer.close()
        finally:
            try:
                await stream.close()
            except OSError:
                pass
            finally:
                self._streams.pop(stream.local, None)

    async def _send(self, message: Message) -> None:
        self._writer.write(message.encode())
        await self._writer.drain()

    def _handler(self, service: str) -> _Handler | None:
        kind = service.partition(":")[0].partition(",")[0]
        if kind == "shell" and ",v2" in service.partition(":")[0]:
            return Connection._shell_v2
        return {
            "shell": Connection._shell,
            "exec": Connection._shell,
            "sync": Connection._sync,
            "reboot": Connection._reboot_service,
            "reverse": Connection._reverse,
            "framebuffer": Connection._framebuffer,
            **dict.fromkeys(services.SAID, Connection._say),
        }.get(kind)

    async def _shell(self, stream: Stream, service: str) -> None:
        await shell_service.plain(stream, service.partition(":")[2], self._phone.run_line)

    async def _shell_v2(self, stream: Stream, service: str) -> None:
        await shell_service.framed(stream, service.partition(":")[2], self._phone.run_line)

    async def _sync(self, stream: Stream, service: str) -> None:
        await self._phone.before("sync")
        await SyncService(self._phone.shell.phone, stream, self._phone.exclusive).run()

    async def _say(self, stream: Stream, service: str) -> None:
        await stream.write(services.SAID[service.partition(":")[0]])

    async def _reverse(self, stream: Stream, service: str) -> None:
        await stream.write(services.reverse(service.partition(":")[2], self._reversed))

    async def _framebuffer(self, stream: Stream, service: str) -> None:
        await self._phone.before("framebuffer")
        phone = self._phone.shell.phone
        await stream.write(await self._phone.exclusive(lambda: services.framebuffer(phone)))

    async def _reboot_service(self, stream: Stream, service: str) -> None:
        self._phone.reboot()


_Handler = Callable[[Connection, Stream, str], Awaitable[None]]
