"""The container's own adb, talking to the container's own emulator."""

from __future__ import annotations

import subprocess
import time

from avd import Failure

COMMAND_S = 10.0
"""Longest time of one command."""
TRIES, PAUSE_S = 5, 1.0
"""adbd restarts when it becomes root, and a phone that has just booted still refuses a command now and then."""


class Adb:
    """Every command is a list of words: nothing here is read by a shell of the container."""

    def __init__(self, serial: str) -> None:
        self.serial = serial

    def start_server(self) -> None:
        """Before the emulator, which makes itself known to a server that runs. Raises Failure."""
        try:
            done = _run("start-server", timeout=30.0)
        except subprocess.TimeoutExpired:
            raise Failure("adb's server did not start within 30 s") from None
        if done.returncode:
            raise Failure(f"adb's server does not start: {_last_line(done)}")

    def says(self, *words: str) -> str:
        """What one command prints, without blanks around it; "" when it fails."""
        try:
            done = _run("-s", self.serial, *words, timeout=COMMAND_S)
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    def ask(self, *words: str, timeout: float = COMMAND_S) -> str:
        """What a command prints that has to work. Tried again when it fails; raises Failure in the end."""
        why = ""
        for attempt in range(TRIES):
            time.sleep(PAUSE_S if attempt else 0.0)
            try:
                done = _run("-s", self.serial, *words, timeout=timeout)
            except subprocess.TimeoutExpired:
                why = f"no answer within {timeout:g} s"
                continue
            if done.returncode == 0:
                return done.stdout.strip()
            why = _last_line(done)
        raise Failure(f"adb {' '.join(words)[:80]}: {why}")

    def emu(self, *words: str) -> str:
        """A command of the emulator's console. adb exits 0 whatever the console answers; Failure for KO."""
        said = self.ask("emu", *words, timeout=300.0)
        if refused := [line for line in said.splitlines() if line.startswith("KO")]:
            raise Failure(f"the emulator's console refused `{' '.join(words)}`: {refused[0]}")
        return said

    def kill_emulator(self, timeout: float) -> None:
        """Asks it to end; whether it does is for the caller to see."""
        try:
            _run("-s", self.serial, "emu", "kill", timeout=timeout)
        except subprocess.TimeoutExpired:
            return


def public_key(private: str) -> str:
    """What `adb pubkey` makes of a private key's file; "" when adb cannot read it."""
    done = _run("pubkey", private, timeout=COMMAND_S)
    return done.stdout.strip() if done.returncode == 0 else ""


def _run(*words: str, timeout: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["adb", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=timeout, check=False)  # fmt: skip
    except OSError as error:
        raise Failure(f"adb cannot be run: {error}") from None


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
