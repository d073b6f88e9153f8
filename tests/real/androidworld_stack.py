"""An embedded phone served as an emulator, and AndroidWorld's own programs on it, as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import adbutils
import httpx
import pytest
from ports import free_port

HERE = Path(__file__).parent
CHECKOUT, PYTHON = "MOBILERL_ANDROIDWORLD", "MOBILERL_ANDROIDWORLD_PYTHON"
needs_androidworld = pytest.mark.skipif(
    not (os.environ.get(CHECKOUT) and os.environ.get(PYTHON)),
    reason=f"{CHECKOUT} and {PYTHON} do not name AndroidWorld's checkout and its Python (docs/benchmarks.md)",
)
EMULATOR_PORTS = range(5585, 5555, -2)
"""adb finds emulators at these ports by itself, and again after AndroidEnv has restarted its adb server."""
START_S = 180.0


class Stack:
    """One phone at one emulator port. Use as a context manager; what was started ends with it."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self._ending = ExitStack()
        self.adb_server_port = free_port()

    def __enter__(self) -> Stack:
        self.work.mkdir(parents=True, exist_ok=True)
        self.adb_port = self._serve_phone()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()
        subprocess.run([*self.adb, "kill-server"], env=self._environment(), capture_output=True, timeout=30)

    @property
    def adb(self) -> list[str]:
        return [adbutils.adb_path(), "-P", str(self.adb_server_port)]

    @property
    def serial(self) -> str:
        """The phone for mobilerl, on an adb server that AndroidEnv does not restart."""
        return f"127.0.0.1:{self.adb_port}"

    def server(self) -> str:
        """Starts AndroidWorld's server; returns its URL once it answers."""
        port = free_port()
        process = self._start("server", [*self._launch("serve"), "--port", str(port)])
        until = time.monotonic() + START_S
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/health", timeout=5.0).raise_for_status()
                return f"http://127.0.0.1:{port}"
            except httpx.HTTPError:
                alive = process.poll() is None and time.monotonic() < until
                assert alive, (self.work / "server.log").read_text()[-4000:]
                time.sleep(0.5)

    def run(self, out: Path, seed: int) -> None:
        """AndroidWorld's own runner plays one suite."""
        command = [*self._launch("run"), "--out", str(out), "--seed", str(seed)]
        process = self._start("runner", command)
        assert process.wait(3600) == 0, (self.work / "runner.log").read_text()[-4000:]

    def _launch(self, what: str) -> list[str]:
        return [
            os.environ[PYTHON],
            str(HERE / "androidworld_launch.py"),
            os.environ[CHECKOUT],
            what,
            "--console-port",
            str(self.adb_port - 1),
            *("--adb", adbutils.adb_path()),
            "--adb-server-port",
            str(self.adb_server_port),
        ]

    def _serve_phone(self) -> int:
        for port in EMULATOR_PORTS:
            command = [sys.executable, str(HERE / "androidworld_phone.py"), "--port", str(port)]
            process = self._start(f"phone-{port}", [*command, "--console-port", str(port - 1)])
            until = time.monotonic() + START_S
            while process.poll() is None and time.monotonic() < until:
                if "1 phone on" in (self.work / f"phone-{port}.log").read_text():
                    return port
                time.sleep(0.1)
        raise AssertionError(f"no port for an emulator is free: {(self.work / f'phone-{port}.log').read_text()}")

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self.work / f"{name}.log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment())
        self._ending.callback(end, process)
        return process

    def _environment(self) -> dict[str, str]:
        """HOME and the temporary folder are of this stack alone: AndroidWorld has fixed names in them."""
        for name in ("home", "tmp"):
            (self.work / name).mkdir(exist_ok=True)
        own = {"HOME": str(self.work / "home"), "TMPDIR": str(self.work / "tmp"), "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **own}


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
