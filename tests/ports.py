"""Ports of this machine."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

LOWEST, HIGHEST = 20_000, 32_000
"""Below those that the system gives to outgoing connections and to servers that ask for any: nobody gets one of them
by chance between our choice and its use."""


def free_port(count: int = 1) -> int:
    """An even port that is free, as are the `count` - 1 above it. Other test processes choose others."""
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(LOWEST, HIGHEST, 2)
        with ExitStack() as held:
            try:
                for number in range(port, port + count):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", number))
            except OSError:
                continue
        return port


def listens(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0
