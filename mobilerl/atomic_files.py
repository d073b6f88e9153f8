"""Files that appear whole or not at all, whatever happens to the process that writes them."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp", re.DOTALL)


def write_atomic(path: Path, data: bytes, sync: bool = True) -> None:
    """Puts `data` at `path` so that a crash at any moment leaves the old file or the new one, never a mixture.

    Without `sync` that holds for a crash of the process alone, not for a power cut: for files of a folder that is
    synced as a whole (`sync_folder`) before anybody relies on it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as f:
            f.write(data)
            if sync:
                f.flush()
                os.fsync(f.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if sync:
        sync_path(path.parent)  # the rename itself survives a power cut only once the folder is on disk


def put_folder(temporary: Path, final: Path) -> None:
    """Gives a finished folder its name, at which nothing may be, once all of it is on disk."""
    sync_folder(temporary)
    temporary.rename(final)
    sync_path(final.parent)


def remove_leftovers(folder: Path) -> None:
    """Of `write_atomic` in a process that was killed meanwhile. Nobody may be writing into `folder` now."""
    for path in folder.glob(".*.tmp"):
        if _TEMPORARY.fullmatch(path.name):
            path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Puts everything in `folder`, at any depth, on disk."""
    for path in [*folder.rglob("*"), folder]:
        sync_path(path)


def sync_path(path: Path) -> None:
    """Puts a file's content, or a folder's entries, on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
