"""The server beside the emulator that sets up and scores AndroidWorld's tasks."""

from __future__ import annotations

import shutil
import sys
import time
import urllib.request
from collections.abc import Callable

from avd import BOOT_FAILED, Failure
from avd.settings import Settings

LOADING_S = 300.0
"""Maximum loading time: building AndroidWorld's environment sleeps for some 13 s, and its apps start."""
POLL_S = 1.0


def command(settings: Settings) -> list[str]:
    """The server listens on 127.0.0.1; its port is forwarded like the emulator's."""
    ports = f"--port {settings.task_port} --console-port {settings.console_port} --grpc-port {settings.grpc_port}"
    adb = shutil.which("adb") or "adb"
    return [sys.executable, settings.task_server, "--adb", adb, *ports.split()]


def wait_until_ready(settings: Settings, watch: Callable[[], None]) -> None:
    """Waits until the server answers. It exits if loading fails. Raises Failure."""
    until = time.monotonic() + LOADING_S
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # Docker may pass a proxy to its containers
    while True:
        watch()
        try:
            direct.open(f"http://127.0.0.1:{settings.task_port}/health", timeout=10).close()
            return
        except OSError as error:
            if time.monotonic() > until:
                raise Failure(f"AndroidWorld's server is not ready: {error}", BOOT_FAILED) from None
        time.sleep(POLL_S)
