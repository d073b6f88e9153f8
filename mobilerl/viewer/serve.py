"""Serves the page of a run over HTTP: only the files of `view/` and the screens that they show."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from mobilerl.viewer.build import build
from mobilerl.viewer.episodes import Cache

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".png": "image/png"}
CONNECTIONS, IDLE_S = 64, 15.0
"""Maximum number of connections, and seconds after which an idle one is closed."""
_PAGE = re.compile(r"/(index\.html)?")
_DATA = re.compile(r"/(data|against-[1-9])/[A-Za-z0-9-]+\.js")
_HOST = re.compile(r"([a-z0-9._-]+)(:[0-9]{1,5})?")
_IPV4 = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_SCREEN = re.compile(r"/(?:against-([1-9])/)?((?:[^/]+/)*screens/[0-9a-f]{64}\.png)")


class _Server(ThreadingHTTPServer):
    """Serves at most `CONNECTIONS` connections at a time; others are closed."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


def make_server(
    run: Path, against: Sequence[Path], host: str, port: int, cache: Cache | None = None
) -> ThreadingHTTPServer:
    """Makes a server that is bound but not serving yet. Each request for the page or its version, which an open page
    polls, rebuilds what has changed. `cache` is that of an earlier `build`. Raises OSError if it cannot bind."""
    return _Server(
        (host, port), partial(_Handler, run, against, host, threading.Lock(), {} if cache is None else cache)
    )


def is_allowed_host(header: str, host: str, bound: str) -> bool:
    """Whether a request's Host header names this server, which listens on `host` and is bound to `bound`.

    This prevents DNS rebinding: a page of another origin could point its own name to 127.0.0.1 and read the run. Any
    port is accepted, since an SSH tunnel has its own. A server that listens on all addresses accepts any IPv4 address,
    which such a page cannot redirect.
    """
    named = _HOST.fullmatch(header.lower())
    if named is None:
        return False
    if named[1] in ("127.0.0.1", "localhost", host.lower(), bound):
        return True
    return bound == "0.0.0.0" and (_IPV4.fullmatch(named[1]) is not None or named[1] == socket.gethostname().lower())


def file_for(path: str, run: Path, against: Sequence[Path]) -> Path | None:
    """File for the path of a request; None if the path is not part of the page."""
    if _PAGE.fullmatch(path):
        return run / "view" / "index.html"
    if _DATA.fullmatch(path):
        return run / "view" / path[1:]
    screen = _SCREEN.fullmatch(path)
    if screen is None or ".." in path.split("/") or int(screen[1] or 0) > len(against):
        return None
    root = (run, *against)[int(screen[1] or 0)]
    file = root / screen[2]
    return file if file.resolve().is_relative_to(root.resolve()) else None  # a link may lead anywhere


class _Handler(BaseHTTPRequestHandler):
    server_version = "mobilerl"
    sys_version = ""

    timeout = IDLE_S

    def __init__(
        self, run: Path, against: Sequence[Path], host: str, lock: threading.Lock, cache: Cache, *arguments: object
    ) -> None:
        self._run, self._against, self._host, self._lock, self._cache = run, against, host, lock, cache
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host", [])
        bound = cast("tuple[str, int]", self.server.server_address)[0]
        if len(hosts) != 1 or not is_allowed_host(hosts[0], self._host, bound):
            fix = "use 127.0.0.1 or localhost, or pass the address that clients use as --host"
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, explain=f"Not an address of this server: {fix}")
            return
        path = unquote(urlsplit(self.path).path)
        if self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none") and not _PAGE.fullmatch(path):
            # Other pages may link to this one, but not include its scripts and images.
            self.send_error(HTTPStatus.FORBIDDEN, explain="Requests from other sites are refused")
            return
        if path == "/favicon.ico":  # browsers always request one
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()
            return
        file = file_for(path, self._run, self._against)
        if file is not None and file.name in ("index.html", "version.js"):
            try:
                with self._lock:
                    build(self._run, self._against, self._cache)
            except (ValueError, OSError) as error:
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=str(error))
                return
        if file is None or not file.is_file():
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        content = file.read_bytes()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", TYPES[file.suffix])
        self.send_header("Content-Length", str(len(content)))
        # A screen's name is its hash, so it never changes; everything else may, when the page is rebuilt.
        self.send_header("Cache-Control", "max-age=31536000, immutable" if file.suffix == ".png" else "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        """Does nothing, so that requests are not logged."""
