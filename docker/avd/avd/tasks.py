"""The server beside the emulator that sets AndroidWorld's tasks up and scores them."""

from __future__ import annotations

import shutil
import sys
import time
import urllib.request
from collections.abc import Callable

from avd import BOOT_FAILED, Failure
from avd.settings import Settings

LOADING_S = 300.0
"""AndroidWorld's environment sleeps for some 13 s while it is built, and its apps wake up."""
POLL_S = 1.0


def command(settings: Settings) -> list[str]:
    """It listens on 127.0.0.1: its port is forwarded like the emulator's."""
    ports = f"--port {settings.task_port} --console-port {settings.console_port} --grpc-port {settings.grpc_port}"
    adb = shutil.which("adb") or "adb"
    return [sys.executable, settings.task_server, "--adb", adb, *ports.split()]


def wait_until_ready(settings: Settings, watch: Callable[[], None]) -> None:
    """Nobody answers while it loads, and it ends when that failed. Raises Failure."""
    until = time.monotonic() + LOADING_S
    while True:
        watch()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{settings.task_port}/health", timeout=10).close()
            return
        except OSError as error:
            if time.monotonic() > until:
                raise Failure(f"AndroidWorld's server is not ready: {error}", BOOT_FAILED) from None
        time.sleep(POLL_S)
