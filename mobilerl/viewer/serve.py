"""The pages of a run over HTTP: the files of `view/` and the screens they show, nothing else."""

from __future__ import annotations

import re
import socket
import threading
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mobilerl.viewer.build import build

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".png": "image/png"}
_PAGE = re.compile(r"/(index\.html)?")
_DATA = re.compile(r"/(data|against)/[A-Za-z0-9-]+\.js")
_HOST = re.compile(r"([a-z0-9._-]+)(:[0-9]{1,5})?")
_IPV4 = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_SCREEN = re.compile(r"/(against-run/)?((?:eval/(?:[^/]+/)+)?screens/[0-9a-f]{64}\.png)")


def make_server(run: Path, against: Path | None, host: str, port: int) -> ThreadingHTTPServer:
    """A server of a run's pages, bound but not serving yet. The page is built whenever it is asked for, so that loading
    it again shows newer iterations. OSError when it cannot be bound."""
    return ThreadingHTTPServer((host, port), partial(_Handler, run, against, host, threading.Lock()))


def is_for_us(asked: str, host: str, bound: str) -> bool:
    """Whether a request's Host header (`asked`) names this server, told to listen on `host` and bound to that address.

    A page of another origin may make a name of its own lead to 127.0.0.1 (DNS rebinding); its requests would otherwise
    count as those of the run's page. The port may be any: that of an SSH tunnel is another one. A server that listens
    everywhere has no one address, so there any IPv4 address will do, which a page cannot make lead elsewhere.
    """
    named = _HOST.fullmatch(asked.lower())
    if named is None:
        return False
    if named[1] in ("127.0.0.1", "localhost", host.lower(), bound):
        return True
    return bound == "0.0.0.0" and (_IPV4.fullmatch(named[1]) is not None or named[1] == socket.gethostname().lower())


def file_for(path: str, run: Path, against: Path | None) -> Path | None:
    """The file behind the path of a request; None for whatever is not part of the pages."""
    if _PAGE.fullmatch(path):
        return run / "view" / "index.html"
    if _DATA.fullmatch(path):
        return run / "view" / path[1:]
    screen = _SCREEN.fullmatch(path)
    if screen is None or ".." in path.split("/"):
        return None
    root = against if screen[1] else run
    return root / screen[2] if root is not None else None


class _Handler(BaseHTTPRequestHandler):
    server_version = "mobilerl"
    sys_version = ""

    def __init__(
        self, run: Path, against: Path | None, host: str, building: threading.Lock, *arguments: object
    ) -> None:
        self._run, self._against, self._host, self._building = run, against, host, building
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not is_for_us(hosts[0], self._host, self.server.server_address[0]):
            cure = "ask for 127.0.0.1 or localhost, or name the address that people use by --host"
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, explain=f"This is no address of this server: {cure}")
            return
        path = unquote(urlsplit(self.path).path)
        if path == "/favicon.ico":  # browsers ask for it unasked
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()
            return
        file = file_for(path, self._run, self._against)
        if file is not None and file.suffix == ".html":
            try:
                with self._building:
                    build(self._run, self._against)
            except (ValueError, OSError) as error:
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=str(error))
                return
        if file is None or not file.is_file():
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self._send(file.read_bytes(), file.suffix)

    def _send(self, content: bytes, suffix: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", TYPES[suffix])
        self.send_header("Content-Length", str(len(content)))
        # A screen is named by its content; everything else changes when the page is built again.
        self.send_header("Cache-Control", "max-age=31536000, immutable" if suffix == ".png" else "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        """Requests are nobody's concern."""
