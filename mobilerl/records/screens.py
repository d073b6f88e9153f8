"""Stores for screenshots, named by the SHA-256 of their PNG: in memory, or as files in a folder."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Protocol

from mobilerl.system.atomic_files import write_atomic

_DIGEST = re.compile(r"[0-9a-f]{64}")


class ScreenStore(Protocol):
    """Stores the PNGs of trajectories in dict form: `get(put(png)) == png`, and equal PNGs have the same name."""

    def put(self, png: bytes) -> str: ...
    def get(self, digest: str) -> bytes: ...


class MemoryScreens:
    """Screens in a dict {sha256: PNG}."""

    def __init__(self, screens: dict[str, bytes] | None = None) -> None:
        self.screens = {} if screens is None else screens

    def put(self, png: bytes) -> str:
        digest = hashlib.sha256(png).hexdigest()
        self.screens.setdefault(digest, png)
        return digest

    def get(self, digest: str) -> bytes:
        if digest not in self.screens:
            raise ValueError(f"screen {digest!r} is not in the store")
        return self.screens[digest]


class ScreenFolder:
    """Screens as `<folder>/<sha256>.png`. Equal screens are read as one `bytes` object.

    `put` syncs each file to disk; with `sync=False` the caller syncs the folder.
    """

    def __init__(self, folder: Path | str, sync: bool = True) -> None:
        self.folder, self._sync = Path(folder), sync
        self._read: dict[str, bytes] = {}

    def put(self, png: bytes) -> str:
        digest = hashlib.sha256(png).hexdigest()
        path = self.folder / f"{digest}.png"
        if not path.exists():
            write_atomic(path, png, self._sync)
        return digest

    def get(self, digest: str) -> bytes:
        if digest not in self._read:
            if not _DIGEST.fullmatch(digest):  # the name becomes a path, which must not leave the folder
                raise ValueError(f"{digest!r} is not the name of a screen (64 hex digits)")
            path = self.folder / f"{digest}.png"
            if not path.exists():
                raise ValueError(f"screen {path} is missing; copy the run's screens/ folder along with trajectories/")
            png = path.read_bytes()
            if hashlib.sha256(png).hexdigest() != digest:
                raise ValueError(f"screen {path} is damaged: its content does not match its name")
            self._read[digest] = png
        return self._read[digest]
