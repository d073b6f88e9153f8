"""The only way out of a page: a proxy that serves the files of listed folders and refuses all the rest."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

INDEX = "index.html"
"""File that a folder shows."""
HEAD_BYTES = 1 << 16
"""Maximum size of a request's head."""

Answer = tuple[str, str, bytes]
"""Status, type and content."""
OK = "200 OK"
FORBIDDEN: Answer = ("403 Forbidden", "text/plain", b"This address is not one that the recipe lists.")
MISSING: Answer = ("404 Not Found", "text/plain", b"The folder of this site has no such file.")


class Gate:
    """Chromium's proxy on a free port of 127.0.0.1. `sites` maps host names to the folders that they show."""

    def __init__(self, sites: Mapping[str, Path]) -> None:
        self._sites = {host: Path(folder).resolve() for host, folder in sites.items()}
        self._files: dict[str, Answer] = {}
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> str:
        """Returns the address to use as a proxy."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES)
        return "http://{}:{}".format(*self._server.sockets[0].getsockname())

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in [*self._writers]:
                writer.close()  # ends its task, which is not cancelled
            await asyncio.sleep(0)
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, _, rest = head.decode("latin-1").partition(" ")
                writer.write(self._answer(method, rest.split(" ", 1)[0]))
                await writer.drain()
                if method != "GET":  # its body, or the bytes of a tunnel, may follow
                    return
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            return  # the page or the browser is gone
        except asyncio.CancelledError:
            return  # at the end of the loop: Python 3.11 would print a traceback
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, method: str, url: str) -> bytes:
        status, kind, body = self._read(url) if method == "GET" else FORBIDDEN
        fields = [
            f"Content-Type: {kind}{'; charset=utf-8' if kind.startswith('text/') else ''}",
            f"Content-Length: {len(body)}",
            f"Cache-Control: {'max-age=86400' if status == OK else 'no-store'}",
        ]
        return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode() + body

    def _read(self, url: str) -> Answer:
        """The file that a URL names, if it is there and may be read."""
        if url not in self._files:
            parts = urlsplit(url)
            folder = self._sites.get(parts.hostname or "") if parts.scheme == "http" else None
            if folder is None:
                return FORBIDDEN
            path = (folder / unquote(parts.path).lstrip("/")).resolve()
            path = (path / INDEX).resolve() if path.is_dir() else path
            if not path.is_relative_to(folder):
                return FORBIDDEN
            if not path.is_file():
                return MISSING
            self._files[url] = OK, mimetypes.guess_type(path.name)[0] or "application/octet-stream", path.read_bytes()
        return self._files[url]
