"""Cache of the judge's responses, one small JSON file per question. Processes may share a folder."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mobilerl.config import ConfigError
from mobilerl.system.atomic_files import write_atomic

SCHEMA = 2


def response_key(model: str, messages: Sequence[Any], sampling: Mapping[str, Any]) -> str:
    """SHA-256 of everything that a response depends on; the messages contain the prompt and its images."""
    return hashlib.sha256(json.dumps([SCHEMA, model, messages, sampling], sort_keys=True).encode()).hexdigest()


class ResponseCache:
    """Responses on disk by key. A damaged entry counts as missing and is overwritten."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def check(self) -> None:
        """Raises ConfigError if the folder cannot be written to."""
        probe = self.folder / f".probe-{uuid.uuid4().hex}"
        try:
            write_atomic(probe, b"")
            probe.unlink()
        except OSError as error:
            raise ConfigError(f"judge.cache: {self.folder} cannot be written to ({error}); choose another") from None

    def get(self, key: str) -> str | None:
        try:
            entry = json.loads(self._path(key).read_bytes())
            text, digest = entry["text"], entry["digest"]
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return None
        return text if isinstance(text, str) and digest == _digest(key, text) else None

    def put(self, key: str, text: str, model: str) -> None:
        entry = {"schema": SCHEMA, "model": model, "text": text, "digest": _digest(key, text)}
        write_atomic(self._path(key), (json.dumps(entry) + "\n").encode())

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


def _digest(key: str, text: str) -> str:
    return hashlib.sha256(f"{key}\0{text}".encode(errors="surrogatepass")).hexdigest()
