"""The judge's replies on disk, one small JSON file per question. Any number of processes may share a folder."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mobilerl.atomic_files import write_atomic
from mobilerl.config import ConfigError

SCHEMA = 1


def reply_key(model: str, messages: Sequence[Any], sampling: Mapping[str, Any], vote: int) -> str:
    """SHA-256 over all that a reply depends on: the messages hold the prompt and the bytes of its images."""
    asked = [SCHEMA, model, messages, sampling, vote]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


class ReplyCache:
    """`get(put(key, text)) == text`. An entry that is damaged in any way counts as missing, and is written again."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def check(self) -> None:
        """Raises ConfigError when the folder cannot be written to."""
        probe = self.folder / f".probe-{uuid.uuid4().hex}"
        try:
            write_atomic(probe, b"")
            probe.unlink()
        except OSError as error:
            raise ConfigError(
                f"judge.cache: {self.folder} cannot be written to ({error}); choose another folder"
            ) from None

    def get(self, key: str) -> str | None:
        path = self._path(key)
        try:
            entry = json.loads(path.read_bytes())
        except (FileNotFoundError, ValueError):  # ValueError: cut short, or not UTF-8
            return None
        if not isinstance(entry, dict) or entry.get("schema") != SCHEMA or not isinstance(entry.get("text"), str):
            return None
        return entry["text"] if entry.get("digest") == _digest(key, entry["text"]) else None

    def put(self, key: str, text: str, model: str) -> None:
        entry = {"schema": SCHEMA, "model": model, "text": text, "digest": _digest(key, text)}
        write_atomic(self._path(key), (json.dumps(entry) + "\n").encode())

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


def _digest(key: str, text: str) -> str:
    """Belongs to this key alone: an entry under a wrong name is damage as well. A file may hold a lone surrogate."""
    return hashlib.sha256(f"{key}\0{text}".encode(errors="surrogatepass")).hexdigest()
