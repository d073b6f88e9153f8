"""The connection of one host to one phone: handshake, streams, and dispatch of requests to services."""

from __future__ import annotations

import asyncio
import os
from typing import Protocol

from mobilerl.envs.blocking import OneAtATime
from mobilerl.envs.phone.adbd import services, shell_service, wire
from mobilerl.envs.phone.adbd.auth import TOKEN_SIZE, PublicKey, accepts
from mobilerl.envs.phone.adbd.streams import Stream, StreamClosed
from mobilerl.envs.phone.adbd.sync import SyncService
from mobilerl.envs.phone.adbd.wire import MAX_PAYLOAD, Message, ProtocolError, read_message
from mobilerl.envs.phone.faults import Fault
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell import Result, Session

FEATURES = "shell_v2,cmd,stat_v2,ls_v2,fixed_push_mkdir"
"""Only implemented features, so that the host uses plain SEND/RECV and sends one WRTE at a time."""
MAX_STREAMS = 256
KINDS = frozenset(("shell", "exec", "sync", "reboot", "reverse", "framebuffer", *services.SAID))
"""Services that can be opened."""
HELLO_TIMEOUT_S = 30.0
"""Timeout for the first message."""


class ConnectedPhone(Protocol):
    """A phone as its connections use it."""

    banner: str
    keys: tuple[PublicKey, ...] | None
    """Keys of the hosts that may connect; None for all hosts."""
    phone: Phone
    exclusive: OneAtATime

    async def run_line(self, line: str, session: Session | None = None) -> Result:
        """Runs a command line and returns its result, unless a fault prevents it."""

    async def before(self, what: str) -> Fault | None:
        """Applies the fault of the next command. May never return."""

    def reboot(self) -> None:
        """Goes offline for a while."""


class Connection:
    """Serves a connected adb server until it disconnects."""

    def __init__(self, phone: ConnectedPhone, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
            pass  # the host left, or does not speak adb: the phone waits for the next one
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
        """Returns once the host may connect. An unknown host is left waiting, as with an unanswered dialog."""
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
            if message.command == wire.WRTE:  # this side has closed the stream
                await self._send(Message(wire.CLSE, 0, message.arg0))
        elif message.command == wire.WRTE:
            stream.on_data(message.data)
        elif message.command == wire.OKAY:
            stream.on_okay()
        elif message.command == wire.CLSE:
            stream.on_close()
            if service := self._services.get(stream.local):
                service.cancel()  # like the hang-up of a real shell; work that began on the phone is finished

    async def _open(self, message: Message) -> None:
        service = message.data.rstrip(b"\0").decode(errors="replace")
        if _kind(service) not in KINDS or len(self._streams) >= MAX_STREAMS:
            await self._send(Message(wire.CLSE, 0, message.arg0))
            return
        self._numbers += 1
        stream = self._streams[self._numbers] = Stream(self._numbers, message.arg0, self._send, self._max)
        await self._send(Message(wire.OKAY, stream.local, stream.remote))
        number = stream.local
        self._services[number] = asyncio.create_task(self._serve_stream(stream, service))
        self._services[number].add_done_callback(lambda _: self._services.pop(number))

    async def _serve_stream(self, stream: Stream, service: str) -> None:
        try:
            await self._serve_service(stream, service)
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

    async def _serve_service(self, stream: Stream, service: str) -> None:
        host, kind, rest = self._phone, _kind(service), service.partition(":")[2]
        phone = host.phone
        if kind == "shell" and ",v2" in service.partition(":")[0]:
            await shell_service.serve_framed(stream, rest, host.run_line)
        elif kind in ("shell", "exec"):
            await shell_service.serve_plain(stream, rest, host.run_line)
        elif kind == "sync":
            await host.before("sync")
            await SyncService(phone, stream, host.exclusive).run()
        elif kind == "framebuffer":
            await host.before("framebuffer")
            await stream.write(await host.exclusive(lambda: services.framebuffer(phone)))
        elif kind == "reverse":
            await stream.write(services.reverse(rest, self._reversed))
        elif kind == "reboot":
            host.reboot()
        else:
            await stream.write(services.SAID[kind])

    async def _send(self, message: Message) -> None:
        self._writer.write(message.encode())
        await self._writer.drain()


def _kind(service: str) -> str:
    """The service name: `shell` for `shell,v2,raw:LINE`."""
    return service.partition(":")[0].partition(",")[0]
