"""Starts, watches and stops the processes in the container."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from avd import CHILD_FAILED, Failure
from avd.adb import Adb

ASKED_S, ENDING_S, TERMINATED_S, KILLED_S = 1.5, 1.5, 1.0, 0.5
"""Time limits for `adb emu kill`, for the emulator to exit after it, and for all processes to exit after SIGTERM and
after SIGKILL: less than 5 s in total."""
EMULATOR = "the emulator"


class Processes:
    """Each process has its own process group, so that a signal from a terminal reaches only this program."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, words: Sequence[str]) -> None:
        """Starts a process whose output is the container's. Raises Failure."""
        try:
            self._running[name] = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
        except OSError as error:
            raise Failure(f"{name} cannot be started: {error}") from None

    def watch(self) -> None:
        """Raises Failure once a process has exited, with the emulator's own exit code if it was the emulator."""
        for name, process in self._running.items():
            if (status := process.poll()) is not None:
                code = 128 - status if status < 0 else status
                raise Failure(f"{name} has ended with exit code {code}", code if name == EMULATOR else CHILD_FAILED)

    def cause(self, failure: Failure) -> Failure:
        """If a process has exited, that is the cause: adb's complaint about the missing phone follows from it."""
        try:
            self.watch()
        except Failure as ended:
            return ended
        return failure

    def stop(self, adb: Adb) -> None:
        """Asks the emulator to exit first, so that its disks stay intact, and then ends all processes."""
        emulator = self._running.get(EMULATOR)
        if emulator is not None and emulator.poll() is None:
            with contextlib.suppress(Failure):
                adb.says("emu", "kill", timeout=ASKED_S)
            _wait([emulator], ENDING_S)
        left = [p for p in self._running.values() if p.poll() is None]
        _signal(left, signal.SIGTERM)
        left = _wait(left, TERMINATED_S)
        _signal(left, signal.SIGKILL)
        _wait(left, KILLED_S)


def _wait(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> list[subprocess.Popen[bytes]]:
    """The processes that have not exited by then."""
    until = time.monotonic() + seconds
    while left := [p for p in processes if p.poll() is None]:
        if time.monotonic() > until:
            break
        time.sleep(0.02)
    return left


def _signal(processes: Sequence[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def say(text: str) -> None:
    print(f"avd: {text}", file=sys.stderr, flush=True)
