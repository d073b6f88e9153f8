"""Exclusive use of a device, or of a fleet's name on a Docker engine, among the processes of this machine.

A claim is a lock on a file, so the kernel releases it when the process ends, however it ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

LONGEST_NAME = 200


class Claim:
    """What one run uses alone. `user` says who holds it; a claim without a user takes nothing.

    `refusal` is the exception for what another run holds. A claim may be released repeatedly, and taken again.
    """

    def __init__(self, user: str = "", refusal: type[Exception] = ValueError) -> None:
        self.user, self.refusal = user, refusal
        self._names: set[str] = set()
        self._held = ExitStack()

    def take(self, name: str, fix: str) -> None:
        """Claims `name`. Raises `refusal` with its holder and `fix` if another claim holds it."""
        if not self.user or name in self._names:
            return
        folder = lock_folder()
        with ExitStack() as opened:
            # systemd-tmpfiles, which removes old files, leaves the files of a locked folder alone.
            fcntl.flock(_open_folder(folder, opened), fcntl.LOCK_SH)
            file = opened.enter_context(open(folder / quote(name, safe="")[-LONGEST_NAME:], "a+", encoding="utf-8"))
            if holder := take_lock(file, f" ({self.user})"):
                raise self.refusal(f"{name} is in use by {holder}: {fix}")
            self._held.enter_context(opened.pop_all())
            self._names.add(name)

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        self._names.clear()
        self._held.close()


def take_lock(file: TextIO, what: str = "") -> str:
    """Locks a file, and writes this process and `what` it does into it. Returns its holder if there is one already."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        return file.read(1000).strip() or "another process"
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}{what}\n")
    file.flush()
    return ""


def run_name(folder: Path | None) -> str:
    """A run as the holder of a claim."""
    return f"run {folder.absolute()}" if folder else "mobilerl"


def lock_folder() -> Path:
    """This user's folder of lock files. Not in $TMPDIR or $XDG_RUNTIME_DIR, which differ between jobs and shells."""
    folder = Path(f"/tmp/mobilerl-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "belongs to another user", str(folder))
    return folder


def _open_folder(folder: Path, opened: ExitStack) -> int:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    opened.callback(os.close, number)
    return number
