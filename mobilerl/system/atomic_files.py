"""Atomic writing of files: they are complete or absent even if the process that writes them is killed."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp", re.DOTALL)


def write_atomic(path: Path, data: bytes, sync: bool = True) -> None:
    """Writes a file so that a crash leaves either the old or the new content, never a mixture.

    Without `sync` this holds for a crash of the process but not for a power failure; use that for files in a folder
    that is synced as a whole later (`sync_folder`).
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
        sync_path(path.parent)  # makes the rename survive a power failure


def put_folder(temporary: Path, final: Path) -> None:
    """Syncs a finished folder and renames it to `final`, which must not exist."""
    sync_folder(temporary)
    temporary.rename(final)
    sync_path(final.parent)


def remove_leftovers(folder: Path) -> None:
    """Removes temporary files of killed processes. No process may be writing into `folder`."""
    for path in folder.glob(".*.tmp"):
        if _TEMPORARY.fullmatch(path.name):
            path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Syncs everything in `folder`, at any depth."""
    for path in [*folder.rglob("*"), folder]:
        sync_path(path)


def sync_path(path: Path) -> None:
    """Syncs a file's content or a folder's entries."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
