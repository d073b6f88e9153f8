"""Hands a port on to another: an emulator listens on its own loopback only."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

CONNECT_TIMEOUT_S = 10
PAUSE_S = 0.2


def forward(host: str, port: int, to_host: str, to_port: int) -> int:
    """Listens on (host, port), in threads of this process, for as long as it lives. Returns the port."""
    server = socket.create_server((host, port))
    threading.Thread(target=_accept, args=(server, to_host, to_port), daemon=True).start()
    return server.getsockname()[1]


def _accept(server: socket.socket, to_host: str, to_port: int) -> None:
    while True:
        try:
            near, _ = server.accept()
        except OSError:  # of a connection that is gone already, or of too many open files: the next may do
            time.sleep(PAUSE_S)
            continue
        threading.Thread(target=_join, args=(near, to_host, to_port), daemon=True).start()


def _join(near: socket.socket, to_host: str, to_port: int) -> None:
    """Copies both ways until both sides have ended."""
    with near:
        try:
            far = socket.create_connection((to_host, to_port), CONNECT_TIMEOUT_S)
        except OSError:
            return
        with far:
            far.settimeout(None)
            back = threading.Thread(target=_copy, args=(far, near), daemon=True)
            back.start()
            _copy(near, far)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
