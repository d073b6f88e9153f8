"""Who may talk to the phone: adb's keys, and the token of the emulator's console."""

from __future__ import annotations

import os
from pathlib import Path

from avd import BAD_SETTINGS, Failure
from avd.adb import Adb, public_key
from avd.settings import Settings

PRIVATE_KEYS = ("PRIVATE KEY", "RSA PRIVATE KEY")
GUEST_COPY = "/data/local/tmp/mobilerl.pub"
GUEST_KEYS = "/data/misc/adb/adb_keys"
"""Where adbd looks, anew for every connection."""


def place(settings: Settings) -> Path | None:
    """Writes the key and the token into the home folder. Returns the public key's file when a key was given."""
    if settings.token:
        _write(settings.home / ".emulator_console_auth_token", settings.token, 0o600)
    if not settings.adb_key:
        return None
    private = settings.home / ".android" / "adbkey"
    _write(private, _checked(settings.adb_key), 0o600)
    public = public_key(str(private))
    if not public:
        private.unlink()
        raise Failure(f"the adb key is no RSA key that adb can read: {_CURE}", BAD_SETTINGS)
    written = private.with_name("adbkey.pub")
    _write(written, public + "\n", 0o644)
    return written


def authorise(adb: Adb, public: Path) -> None:
    """Lets a key's owner in. A phone that comes from a snapshot knows only the keys of the day it was baked."""
    adb.ask("root")
    adb.ask("wait-for-device", timeout=30.0)
    try:
        adb.ask("push", str(public), GUEST_COPY)
        adb.ask("shell", f"cat {GUEST_COPY} >> {GUEST_KEYS} && rm {GUEST_COPY}")
    except Failure as failure:
        raise Failure(f"{failure}; a phone learns keys only where adbd can be root: use a google_apis image") from None
    adb.says("unroot")  # nothing depends on it: what needs root asks for it
    adb.ask("wait-for-device", timeout=30.0)


_CURE = 'pass -e ADBKEY="$(cat ~/.android/adbkey)" with its line breaks, or mount the file at /run/secrets/adbkey'


def _checked(text: str) -> str:
    """With plain line ends. Raises Failure for what is no private key."""
    lines = text.strip().splitlines()
    framed = any(lines[:1] == [f"-----BEGIN {k}-----"] and lines[-1] == f"-----END {k}-----" for k in PRIVATE_KEYS)
    if not framed or len(lines) < 3:
        raise Failure(f"the adb key is not the text of a private key: {_CURE}", BAD_SETTINGS)
    return "\n".join(lines) + "\n"


def _write(file: Path, text: str, mode: int) -> None:
    """Nobody else can read a secret in between: the mode is there before the text is."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as out:
        os.fchmod(out.fileno(), mode)
        out.write(text)
