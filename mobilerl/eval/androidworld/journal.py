"""`episodes.jsonl`: an evaluation's episodes, each on disk as soon as it ends, so that it can be gone on with.

    {"schema": 1, "suite": "androidworld", "protocol": {...}}       first, once
    {"event": "start", "server": "HOST:PORT", "template": ..., "index": ...}
    {"event": "end", "server": ..., "task_id": ..., "trial": ..., ...}
    {"event": "dead", "server": ..., "fault": ..., "at": ...}       the server was given up

A start without its end is what a killed evaluation left set up on a server.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mobilerl.config import ConfigError
from mobilerl.eval.protocol import check_protocol

SCHEMA = 1
FILE = "episodes.jsonl"
NOT_COMPARED = frozenset({"servers", "model_server", "retries"})
"""Parts of the protocol that may differ when an evaluation goes on: where it is played, not what."""

Key = tuple[str, int]
"""Task id and run."""


@dataclass(slots=True)
class Past:
    """What a journal holds. `size` is where its last whole line ends, in bytes."""

    protocol: dict[str, Any] | None = None
    episodes: dict[Key, dict[str, Any]] = field(default_factory=dict)
    leftovers: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By server: the task and index that is still set up."""
    dead: dict[str, dict[str, str]] = field(default_factory=dict)
    """By name, servers that were given up and have played no episode since: server, fault, at."""
    size: int = 0
    read: int = 0
    """Bytes that were read."""

    def check(self, protocol: Mapping[str, Any], path: Path) -> None:
        """Raises ConfigError when the episodes were played by another protocol than (this part of) `protocol`."""
        if self.protocol is not None:
            check_protocol(self.protocol, protocol, NOT_COMPARED, path)


def read_journal(path: Path) -> Past:
    """An empty `Past` when there is no journal; a line that was cut short by a crash is left out."""
    past = Past()
    if not path.is_file():
        return past
    data = path.read_bytes()
    past.read = len(data)
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            _take(past, json.loads(line), number)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path}:{number} is damaged ({error}); remove it, or choose another --out") from None
        past.size += len(line) + 1
    return past


def _take(past: Past, record: dict[str, Any], number: int) -> None:
    if number == 1:
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']}; this version reads schema {SCHEMA}")
        past.protocol = record["protocol"]
    elif record["event"] == "start":
        past.leftovers[record["server"]] = (record["template"], record["index"])
    elif record["event"] == "end":
        past.leftovers.pop(record["server"], None)
        past.dead.pop(record["server"], None)
        past.episodes[record["task_id"], record["trial"]] = {k: v for k, v in record.items() if k != "event"}
    elif record["event"] == "dead":
        past.dead[record["server"]] = {name: record[name] for name in ("server", "fault", "at")}
    else:
        raise ValueError(f"unknown event {record['event']!r}")


class Journal:
    """Appends to a journal, which no other process may do meanwhile. Use as a context manager.

    It is taken before any server is touched: what is set up there may be another evaluation's episode in play.
    """

    def __init__(self, path: Path, past: Past) -> None:
        self._file, self._past = open(path, "ab"), past
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise ConfigError(f"{path} is being written by another evaluation; choose another --out") from None
        if os.fstat(self._file.fileno()).st_size != past.read:
            self._file.close()
            raise ConfigError(f"another evaluation has just written {path}; start again to go on with it")
        self._file.truncate(past.size)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def begin(self, protocol: Mapping[str, Any]) -> None:
        """Writes the first line, unless it is there from before."""
        if self._past.protocol is None:
            self._append({"schema": SCHEMA, "suite": "androidworld", "protocol": dict(protocol)})

    def start(self, server: str, template: str, index: int) -> None:
        self._append({"event": "start", "server": server, "template": template, "index": index})

    def end(self, record: Mapping[str, Any]) -> None:
        self._append({"event": "end", **record})

    def dead(self, server: str, fault: str) -> None:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self._append({"event": "dead", "server": server, "fault": fault, "at": at})

    def _append(self, record: Mapping[str, Any]) -> None:
        self._file.write((json.dumps(record, allow_nan=False) + "\n").encode())
        self._file.flush()
        os.fsync(self._file.fileno())
