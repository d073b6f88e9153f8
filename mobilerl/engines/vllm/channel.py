"""Messages between a run and its vLLM process: a JSON object, and bytes beside it. Nothing is unpickled."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any


class Channel:
    """One end of a socket pair. Many threads may send; one receives. EOFError or OSError: the other end is gone."""

    def __init__(self, fd: int) -> None:
        self._pipe = Connection(fd)
        self._sending = threading.Lock()

    def send(self, message: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
        with self._sending:
            self._pipe.send_bytes(json.dumps({**message, "blobs": len(blobs)}).encode())
            for blob in blobs:
                self._pipe.send_bytes(blob)

    def poll(self, timeout_s: float) -> bool:
        """Is there something to receive, the end of the other side included?"""
        return self._pipe.poll(timeout_s)

    def receive(self) -> tuple[dict[str, Any], list[bytes]]:
        message = json.loads(self._pipe.recv_bytes())
        return message, [self._pipe.recv_bytes() for _ in range(message.pop("blobs"))]

    def close(self) -> None:
        self._pipe.close()
