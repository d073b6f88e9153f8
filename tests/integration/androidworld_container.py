"""Runs in a container of the tests: an embedded phone on adb's port, and the stand-in for AndroidWorld's server.

`START_S` is how long it refuses connections at first.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

from androidworld_server import StandIn

from mobilerl.envs.phone.adbd import ServedPhone
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.transport import InProcessTransport

ADB_PORT, HTTP_PORT = 5556, 5000
"""As in the image of docker/androidworld."""


class InTurn:
    """The phone for the server's threads, one command after the other with those that come over adb."""

    def __init__(self, served: ServedPhone) -> None:
        self._served, self._inner = served, InProcessTransport(served.phone, "emulator-5554")
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._inner, name)

        def in_turn(*arguments: Any) -> Any:
            work = self._served.exclusive(lambda: call(*arguments))
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()

        return in_turn


async def main() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    served = ServedPhone(Phone(APPS, 360, 720), ADB_PORT, "0.0.0.0")
    await served.start()
    await asyncio.sleep(float(os.environ.get("START_S", "1")))
    stand_in = StandIn(InTurn(served), init_s=0.2, host="0.0.0.0")
    stand_in.port = HTTP_PORT
    stand_in.start()
    await stop.wait()


asyncio.run(main())
