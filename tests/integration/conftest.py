"""A real adb server of the tests' own, and embedded phones served to it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import adbutils
import pytest
from docker_engine import docker_engine  # noqa: F401 - a fixture
from ports import free_port, listens

from mobilerl.envs.adb import AdbTransport
from mobilerl.envs.phone.adbd import ServedPhone
from mobilerl.envs.phone.adbd.auth import PublicKey
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.faults import FaultPlan
from mobilerl.envs.phone.phone import Phone


@dataclass
class AdbServer:
    """`adb(...)` runs the real program against the tests' server."""

    port: int
    home: Path
    """Where its keys are: nothing of the user's is read or written."""
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def key(self) -> Path:
        """The private one; the public one lies beside it."""
        return self.home / ".android/adbkey"

    def adb(self, *words: str, data: bytes | None = None, timeout: float = 120) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [adbutils.adb_path(), "-P", str(self.port), *words],
            input=data,
            capture_output=True,
            timeout=timeout,
            env={**os.environ, "HOME": str(self.home)},
        )

    def transport(self, serial: str) -> AdbTransport:
        return AdbTransport(serial, "127.0.0.1", self.port)

    def start(self) -> None:
        if not self.key.exists():  # the server would make it, but it listens before it has
            self.key.parent.mkdir()
            assert self.adb("keygen", str(self.key)).returncode == 0
        # --one-device with a name nobody has: emulators of this machine are left alone.
        self.process = subprocess.Popen(
            [adbutils.adb_path(), "-P", str(self.port), "--one-device", "none", "nodaemon", "server"],
            env={**os.environ, "HOME": str(self.home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + 120
        while not listens(self.port):
            assert time.monotonic() < until and self.process.poll() is None, "the adb server does not start"
            time.sleep(0.05)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def adb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdbServer]:
    server = AdbServer(free_port(), tmp_path_factory.mktemp("home"))
    server.start()
    yield server
    server.kill()


class Phones:
    """Serves phones from a thread of its own, as `mobilerl phone serve` does from a process of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.served: list[ServedPhone] = []
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def __call__(
        self,
        width: int = 360,
        height: int = 720,
        port: int = 0,
        keys: tuple[PublicKey, ...] | None = None,
        faults: FaultPlan | None = None,
    ) -> ServedPhone:
        phone = ServedPhone(Phone(APPS, width, height), port, keys=keys, faults=faults)
        self.run(phone.start)
        self.served.append(phone)
        return phone

    def run(self, call: Callable[[], object]) -> object:
        future: Future[object] = asyncio.run_coroutine_threadsafe(call(), self.loop)  # type: ignore[arg-type]
        return future.result(120)

    def close(self) -> None:
        for phone in self.served:
            self.run(phone.stop)
        self.loop.call_soon_threadsafe(self.loop.stop)


@pytest.fixture
def phones() -> Iterator[Phones]:
    made = Phones()
    yield made
    made.close()
