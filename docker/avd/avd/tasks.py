"""The server beside the emulator that sets AndroidWorld's tasks up and scores them."""

from __future__ import annotations

import shutil
import sys
import time
import urllib.error
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
    server = [sys.executable, settings.task_server, "--host", "127.0.0.1", "--adb", adb]
    return [*server, *ports.split(), "--apps-installed"]


def wait_until_ready(settings: Settings, watch: Callable[[], None]) -> None:
    """It answers 503 while it loads, and 500 for ever when that failed. Raises Failure."""
    until = time.monotonic() + LOADING_S
    while True:
        watch()
        status, said = _health(settings.task_port)
        if status == 200:
            return
        if status == 500 or time.monotonic() > until:
            raise Failure(f"AndroidWorld's server is not ready ({status or 'no answer'}): {said[:300]}", BOOT_FAILED)
        time.sleep(POLL_S)


def _health(port: int) -> tuple[int, str]:
    """(status, body); status 0 when nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, error.read(1000).decode(errors="replace")
    except OSError as error:
        return 0, str(error)
