"""A phone of `mobilerl phone serve` that a private adb server takes for an emulator: what the programs are tried on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import adbutils
from ports import free_port, listens

NO_SCAN = "5553"
"""Highest port on which the adb server looks for emulators: below the first, so it leaves those of others alone."""
TOKEN = "made-for-this-test"
"""Of the emulator console; `adb emu` reads it from HOME."""
START_S = 30.0
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Served:
    """`serial` is what adb calls the phone, `server` the port of the adb server, `home` where its keys are."""

    serial: str
    server: int
    home: Path
    adb_path: str

    @property
    def console(self) -> int:
        return int(self.serial.removeprefix("emulator-"))

    @property
    def address(self) -> str:
        """For `--serial`: the phone as adb connects to it over the network, which has no console."""
        return f"127.0.0.1:{self.console + 1}@127.0.0.1:{self.server}"

    @property
    def env(self) -> dict[str, str]:
        """For programs that find the server by environment variables."""
        return {
            **os.environ,
            "HOME": str(self.home),
            "ANDROID_ADB_SERVER_PORT": str(self.server),
            "ANDROID_SERIAL": self.serial,
            "ADBUTILS_ADB_PATH": self.adb_path,
            "ADB_LOCAL_TRANSPORT_MAX_PORT": NO_SCAN,
        }

    def adb(self, *words: str, timeout: float = 30) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [self.adb_path, "-P", str(self.server), "-s", self.serial, *words],
            env=self.env,
            capture_output=True,
            timeout=timeout,
        )


@contextmanager
def served(
    width: int = 1080, height: int = 2400, program: Sequence[str] = ("-m", "mobilerl.envs.phone")
) -> Iterator[Served]:
    """Starts an adb server and a phone, waits until the server says `device`, and ends both."""
    adb_path = adbutils.adb_path()
    with tempfile.TemporaryDirectory(prefix="mobilerl-phone-") as folder:
        (Path(folder) / ".emulator_console_auth_token").write_text(TOKEN)
        phone, port = _phone(program, width, height, Path(folder) / "phone.log")
        found = Served(f"emulator-{port - 1}", free_port(), Path(folder), adb_path)
        with _ended(phone), _ended(_adb_server(found)):
            _wait_for_device(found, phone)
            yield found


def _phone(program: Sequence[str], width: int, height: int, log: Path) -> tuple[subprocess.Popen[bytes], int]:
    """The process, and the phone's port; the console has the port below."""
    port = free_port(2) + 1
    ports = f"--port {port} --console-port {port - 1} --console-token {TOKEN} --width {width} --height {height}"
    command = [sys.executable, *program, *ports.split()]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=out)
    until = time.monotonic() + START_S
    while not listens(port):
        if time.monotonic() > until or process.poll() is not None:
            process.kill()
            raise RuntimeError(f"no phone could be served: {log.read_text()[-500:]}")
        time.sleep(0.1)
    return process, port


def _adb_server(found: Served) -> subprocess.Popen[bytes]:
    key = found.home / ".android/adbkey"
    key.parent.mkdir()
    subprocess.run([found.adb_path, "keygen", str(key)], env=found.env, check=True, capture_output=True)
    return subprocess.Popen(
        [found.adb_path, "-P", str(found.server), "nodaemon", "server"],
        env=found.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _wait_for_device(found: Served, phone: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    while not listens(found.server) and time.monotonic() < until:
        time.sleep(0.1)
    request = f"host:emulator:{found.console + 1}"  # as an emulator makes itself known to the server
    with socket.create_connection(("127.0.0.1", found.server)) as s:
        s.sendall(f"{len(request):04x}{request}".encode())
    while found.adb("get-state").stdout != b"device\n":
        if time.monotonic() > until or phone.poll() is not None:
            raise RuntimeError(f"adb does not find {found.serial}: {found.adb('devices').stdout!r}")
        time.sleep(0.2)


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.wait()
