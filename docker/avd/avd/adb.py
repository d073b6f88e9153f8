"""The container's own adb, the keys that it accepts, and the token of the emulator's console."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from avd import BAD_SETTINGS, Failure
from avd.settings import Settings

COMMAND_S = 10.0
"""Maximum duration of one command, in seconds."""
TRIES, PAUSE_S = 5, 1.0
"""adbd restarts when it becomes root, and a phone that has just booted may still refuse commands."""
PRIVATE_KEYS = ("PRIVATE KEY", "RSA PRIVATE KEY")
GUEST_COPY = "/data/local/tmp/mobilerl.pub"
GUEST_KEYS = "/data/misc/adb/adb_keys"
"""File that adbd reads at every connection."""
_KEY_FIX = 'pass -e ADBKEY="$(cat ~/.android/adbkey)" with its line breaks, or mount the file at /run/secrets/adbkey'


class Adb:
    """Every command is a list of words, so that no shell of the container interprets it."""

    def __init__(self, serial: str) -> None:
        self.serial = serial

    def start_server(self) -> None:
        """Must run before the emulator, which registers itself with a running server. Raises Failure."""
        try:
            done = _run("start-server", timeout=30.0)
        except subprocess.TimeoutExpired:
            raise Failure("adb's server did not start within 30 s") from None
        if done.returncode:
            raise Failure(f"adb's server does not start: {_last_line(done)}")

    def says(self, *words: str, timeout: float = COMMAND_S) -> str:
        """Stripped output of a command; "" if it fails."""
        try:
            done = _run("-s", self.serial, *words, timeout=timeout)
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    def ask(self, *words: str, timeout: float = COMMAND_S) -> str:
        """Stripped output of a command that must succeed. Retried if it fails; finally raises Failure."""
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
        """Runs a command of the emulator's console. Raises Failure for KO, for which adb exits with 0."""
        said = self.ask("emu", *words, timeout=300.0)
        if refused := [line for line in said.splitlines() if line.startswith("KO")]:
            raise Failure(f"the emulator's console refused `{' '.join(words)}`: {refused[0]}")
        return said


def place_keys(settings: Settings) -> Path | None:
    """Writes the key and the token into the home folder. Returns the file of the public key if a key was given."""
    if settings.token:
        _write(settings.home / ".emulator_console_auth_token", settings.token, 0o600)
    if not settings.adb_key:
        return None
    private = settings.home / ".android" / "adbkey"
    _write(private, _checked(settings.adb_key), 0o600)
    made = _run("pubkey", str(private), timeout=COMMAND_S)
    if made.returncode or not made.stdout.strip():
        private.unlink()
        raise Failure(f"the adb key is no RSA key that adb can read: {_KEY_FIX}", BAD_SETTINGS)
    written = private.with_name("adbkey.pub")
    _write(written, made.stdout.strip() + "\n", 0o644)
    return written


def authorize(adb: Adb, public: Path) -> None:
    """Makes the phone accept a key. A phone from a snapshot knows only the keys of the day it was baked."""
    adb.ask("root")
    adb.ask("wait-for-device", timeout=30.0)
    try:
        adb.ask("push", str(public), GUEST_COPY)
        adb.ask("shell", f"cat {GUEST_COPY} >> {GUEST_KEYS} && rm {GUEST_COPY}")
    except Failure as failure:
        raise Failure(f"{failure}; a phone learns keys only where adbd can be root: use a google_apis image") from None
    adb.says("unroot")  # nothing depends on it: what needs root asks for it
    adb.ask("wait-for-device", timeout=30.0)


def _checked(text: str) -> str:
    """The key with plain line ends. Raises Failure if it is not a private key."""
    lines = text.strip().splitlines()
    framed = any(lines[:1] == [f"-----BEGIN {k}-----"] and lines[-1] == f"-----END {k}-----" for k in PRIVATE_KEYS)
    if not framed or len(lines) < 3:
        raise Failure(f"the adb key is not the text of a private key: {_KEY_FIX}", BAD_SETTINGS)
    return "\n".join(lines) + "\n"


def _write(file: Path, text: str, mode: int) -> None:
    """Sets the mode before the text is written, so that nobody else can read a secret in between."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as out:
        os.fchmod(out.fileno(), mode)
        out.write(text)


def _run(*words: str, timeout: float) -> subprocess.CompletedProcess[str]:
    try:
        given = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
        return subprocess.run(["adb", *words], timeout=timeout, check=False, **given)
    except OSError as error:
        raise Failure(f"adb cannot be run: {error}") from None


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
