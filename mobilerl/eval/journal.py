"""`episodes.jsonl`: the episodes of an evaluation, each written as soon as it ends, so that it can be resumed.

    {"schema": 1, "suite": ..., "protocol": {...}, "episodes": N}   first, once
    {"event": "start", "server": "HOST:PORT", "template": ..., "index": ...}
    {"event": "end", "task_id": ..., "trial": ..., ...}             the last one of a task and trial counts
    {"event": "dead", "server": ..., "fault": ..., "at": ...}       the server was given up

Starts are written by suites whose servers must be told to tear tasks down: a start without an end is a task that a
killed evaluation left set up.
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
from mobilerl.envs.base import Task
from mobilerl.eval.report import RESULTS, read_results

SCHEMA = 1
FILE = "episodes.jsonl"
LONGEST_QUOTE = 60
NOT_COMPARED = frozenset({"servers", "model_server", "retries"})
"""Parts of the protocol that may differ when an evaluation is resumed: where it runs, but not what."""

Key = tuple[str, int]
"""Task id and trial."""


def key_of(task: Task) -> Key:
    """Key of an episode of this task in the journal, including the run of a task that runs several times."""
    return task.id, task.params.get("run", 0)


@dataclass(slots=True)
class Past:
    """Content of a journal."""

    path: Path
    protocol: dict[str, Any] | None = None
    total: int | None = None
    """Number of episodes of the whole evaluation."""
    episodes: dict[Key, dict[str, Any]] = field(default_factory=dict)
    leftovers: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Task and index that are still set up on each server."""
    dead: dict[str, dict[str, str]] = field(default_factory=dict)
    """Servers, by name, that were given up and have run no episode since: server, fault, at."""
    size: int = 0
    """Offset of the end of the last complete line, in bytes."""
    read: int = 0
    """Number of bytes that were read."""
    results: dict[str, Any] | None = None
    """results.json of an evaluation that has finished, in a folder without a journal."""

    def check(self, protocol: Mapping[str, Any], otherwise: str = "or remove it") -> None:
        """Raises ConfigError if an entry of `protocol`, which may be partial, differs from that of the episodes.

        `otherwise` says in the message what else can be done about finished results.
        """
        path, before, fix = self.path, self.protocol, "or resume it with its own settings"
        if before is None and self.results is not None:
            path, before, fix = self.path.with_name(RESULTS), self.results["protocol"], otherwise
        if before is None:
            return
        for name, value in protocol.items():
            if before.get(name) != value and (self.results is not None or name not in NOT_COMPARED):
                raise ConfigError(
                    f"{path} was run with {name} = {_short(before.get(name))} and not {_short(value)}; "
                    f"choose another --out, {fix}"
                )

    def _take(self, record: dict[str, Any], number: int) -> None:
        if number == 1:
            if record["schema"] != SCHEMA:
                raise ValueError(f"schema {record['schema']}; this version reads schema {SCHEMA}")
            self.protocol, self.total = record["protocol"], record.get("episodes")
        elif record["event"] == "start":
            self.leftovers[record["server"]] = (record["template"], record["index"])
        elif record["event"] == "end":
            self.leftovers.pop(record.get("server", ""), None)
            self.dead.pop(record.get("server", ""), None)
            self.episodes[record["task_id"], record["trial"]] = {k: v for k, v in record.items() if k != "event"}
        elif record["event"] == "dead":
            self.dead[record["server"]] = {name: record[name] for name in ("server", "fault", "at")}
        else:
            raise ValueError(f"unknown event {record['event']!r}")


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."


def read_journal(out: Path) -> Past:
    """Reads the journal in the folder `out`; empty if there is none. A line truncated by a crash is left out."""
    path = out / FILE
    if not path.is_file():
        return Past(path, results=read_results(out / RESULTS) if (out / RESULTS).is_file() else None)
    data = path.read_bytes()
    *lines, truncated = data.split(b"\n")
    past = Past(path, size=len(data) - len(truncated), read=len(data))
    for number, line in enumerate(lines, 1):
        try:
            past._take(json.loads(line), number)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path}:{number} is damaged ({error}); remove it or choose another --out") from None
    return past


class Journal:
    """Appends to a journal, which is locked against other processes. Use it as a context manager.

    Open it before touching any server, since what is set up there may belong to another evaluation.
    """

    def __init__(self, past: Past) -> None:
        self._past = past
        past.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(past.path, "ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise ConfigError(f"{past.path} is being written by another evaluation; choose another --out") from None
        if os.fstat(self._file.fileno()).st_size != past.read:
            self._file.close()
            raise ConfigError(f"another evaluation has just written {past.path}; start again to resume it")
        self._file.truncate(past.size)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def begin(self, suite: str, protocol: Mapping[str, Any], episodes: int) -> None:
        """Checks the protocol against that of the journal, or writes it if there is none. Raises ConfigError.

        `episodes` is the number of episodes of the whole evaluation.
        """
        self._past.check(protocol)
        if self._past.protocol is None:
            self._past.protocol = dict(protocol)
            self._append({"schema": SCHEMA, "suite": suite, "protocol": self._past.protocol, "episodes": episodes})

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
