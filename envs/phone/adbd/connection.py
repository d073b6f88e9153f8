"""One host's connection to one phone: handshake, streams, and which service answers which request."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from envs.phone.adbd import shell_service
from envs.phone.adbd.auth import TOKEN_SIZE, Authorization
from envs.phone.adbd.streams import Stream, StreamClosed
from envs.phone.adbd.sync import Exclusive, SyncService
from envs.phone.adbd.wire import (
    AUTH,
    AUTH_PUBLIC_KEY,
    AUTH_SIGNATURE,
    AUTH_TOKEN,
    CLSE,
    CNXN,
    MAX_PAYLOAD,
    OKAY,
    OPEN,
    VERSION,
    WRTE,
    Message,
    ProtocolError,
    read_message,
)
from envs.phone.shell import Result, Shell

FEATURES = "shell_v2,cmd,stat_v2,ls_v2,fixed_push_mkdir"
"""Only what is implemented: the host then uses plain SEND/RECV, and one WRTE at a time."""
MAX_STREAMS = 256
HELLO_TIMEOUT_S = 30.0
"""For the first message of whatever has connected."""


class Connection:
    """Serves a connected host until it leaves. `reboot` is called when the host asks for one."""

    def __init__(
        self,
        shell: Shell,
        exclusive: Exclusive,
        authorization: Authorization | None,
        banner: str,
        reboot: Callable[[], None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.shell, self.exclusive, self.authorization, self.banner = shell, exclusive, authorization, banner
        self._reboot = reboot
        self._reader, self._writer = reader, writer
        self._streams: dict[int, Stream] = {}
        self._services: set[asyncio.Task[None]] = set()
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
            for service in self._services:
                service.cancel()
            await asyncio.gather(*self._services, return_exceptions=True)
            self._writer.close()

    # --- handshake -------------------------------------------------------------------------------------------

    async def _handshake(self) -> None:
        async with asyncio.timeout(HELLO_TIMEOUT_S):
            hello = await read_message(self._reader)
        if hello.command != CNXN:
            raise ProtocolError("the host did not start with CNXN")
        self._max = min(MAX_PAYLOAD, max(hello.arg1, 4096))
        if self.authorization is not None:
            await self._authorize(self.authorization)
        await self._send(Message(CNXN, VERSION, MAX_PAYLOAD, f"{self.banner}features={FEATURES}".encode()))

    async def _authorize(self, authorization: Authorization) -> None:
        """Returns once the host may connect; an unknown host is left waiting, as before a dialog nobody answers."""
        while True:
            token = os.urandom(TOKEN_SIZE)
            await self._send(Message(AUTH, AUTH_TOKEN, 0, token))
            answer = await read_message(self._reader)
            while answer.command == AUTH and answer.arg0 == AUTH_PUBLIC_KEY:
                if authorization.accepts_key(answer.data):
                    return
                answer = await read_message(self._reader)
            if answer.command != AUTH or answer.arg0 != AUTH_SIGNATURE:
                raise ProtocolError("the host did not answer AUTH")
            if authorization.accepts_signature(token, answer.data):
                return

    # --- streams ---------------------------------------------------------------------------------------------

    async def _dispatch(self, message: Message) -> None:
        if message.command == OPEN:
            await self._open(message)
            return
        stream = self._streams.get(message.arg1)
        if stream is None:
            if message.command == WRTE:  # a stream this side has closed meanwhile
                await self._send(Message(CLSE, 0, message.arg0))
        elif message.command == WRTE:
            stream.on_data(message.data)
        elif message.command == OKAY:
            stream.on_okay()
        elif message.command == CLSE:
            stream.on_close()

    async def _open(self, message: Message) -> None:
        service = message.data.rstrip(b"\0").decode(errors="replace")
        handler = self._handler(service)
        if handler is None or len(self._streams) >= MAX_STREAMS:
            await self._send(Message(CLSE, 0, message.arg0))
            return
        self._numbers += 1
        stream = self._streams[self._numbers] = Stream(self._numbers, message.arg0, self._send, self._max)
        await self._send(Message(OKAY, stream.local, stream.remote))
        task = asyncio.create_task(self._serve_stream(stream, service, handler))
        self._services.add(task)
        task.add_done_callback(self._services.discard)

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
            self._streams.pop(stream.local, None)

    async def _send(self, message: Message) -> None:
        self._writer.write(message.encode())
        await self._writer.drain()

    # --- services --------------------------------------------------------------------------------------------

    def _handler(self, service: str) -> _Handler | None:
        kind = service.partition(":")[0].partition(",")[0]
        if kind == "shell" and ",v2" in service.partition(":")[0]:
            return Connection._shell_v2
        return {
            "shell": Connection._shell, "exec": Connection._shell, "sync": Connection._sync, "root": Connection._root,
            "reboot": Connection._reboot_service,
        }.get(kind)  # fmt: skip

    async def _shell(self, stream: Stream, service: str) -> None:
        await shell_service.plain(stream, service.partition(":")[2], self._run_line)

    async def _shell_v2(self, stream: Stream, service: str) -> None:
        await shell_service.framed(stream, service.partition(":")[2], self._run_line)

    async def _run_line(self, line: str) -> Result:
        return await self.exclusive(lambda: self.shell.run(line))

    async def _sync(self, stream: Stream, service: str) -> None:
        await SyncService(self.shell.phone, stream, self.exclusive).run()

    async def _root(self, stream: Stream, service: str) -> None:
        await stream.write(b"adbd is already running as root\n")

    async def _reboot_service(self, stream: Stream, service: str) -> None:
        self._reboot()


_Handler = Callable[[Connection, Stream, str], Awaitable[None]]
