"""An AndroidLab evaluation on disk: one folder per task, complete as soon as its episode ends.

<out>/protocol.json                 what is played; another protocol is refused
<out>/tasks/<task id>/trace.jsonl, Screen/, xml/    while it is played (`envs.androidlab.trace`)
<out>/tasks/<task id>/episode.json  once it has ended
<out>/results.json
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from mobilerl.atomic_files import write_atomic
from mobilerl.config import ConfigError
from mobilerl.eval.protocol import check_protocol

SCHEMA = 1
PROTOCOL = "protocol.json"
EPISODE = "episode.json"
NOT_COMPARED = frozenset({"model_server", "retries"})
"""Parts of the protocol that may differ when an evaluation goes on."""


@dataclass(frozen=True, slots=True)
class Record:
    """One task's episode. `fault` says why there is no outcome: then `judged_steps` is 0 and the rest says nothing."""

    task_id: str
    status: str
    steps: int
    wall_s: float
    device: str
    replies: tuple[str, ...]
    """What the model wrote, by step."""
    fault: str = ""
    complete: bool = False
    sub_goals: Mapping[str, bool] = field(default_factory=dict)
    judged_steps: int = 0
    unchanged: int = 0
    """Judged steps whose screen is that of the one before (`metrics.count_unchanged`)."""
    judge_errors: tuple[str, ...] = ()
    """Steps at which the judge failed, which AndroidLab leaves out."""


class Store:
    """The folder of one evaluation."""

    def __init__(self, out: Path) -> None:
        self.out, self.tasks = out, out / "tasks"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else plays into the folder meanwhile. Raises ConfigError when somebody does."""
        self.out.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.out, os.O_RDONLY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(f"{self.out} is being written by another evaluation; choose another --out") from None
            yield
        finally:
            os.close(folder)

    def begin(self, protocol: Mapping[str, Any]) -> None:
        """Writes the protocol. Raises ConfigError when the folder holds an evaluation by another one."""
        path = self.out / PROTOCOL
        if path.is_file():
            before = _read(path)
            check_protocol(before, dict.fromkeys(before) | dict(protocol), NOT_COMPARED, path)
        write_atomic(path, _dump(protocol))

    def folder(self, task_id: str) -> Path:
        return self.tasks / task_id

    def write(self, record: Record) -> None:
        write_atomic(self.folder(record.task_id) / EPISODE, _dump({"schema": SCHEMA} | asdict(record)))

    def read(self, task_id: str) -> Record | None:
        """The task's record; None where its episode has not ended."""
        path = self.folder(task_id) / EPISODE
        if not path.is_file():
            return None
        data = _read(path)
        try:
            if data.pop("schema") != SCHEMA or data["task_id"] != task_id:
                raise KeyError("schema")
            data |= {name: tuple(data[name]) for name in ("replies", "judge_errors")}
            return Record(**{f.name: data[f.name] for f in fields(Record)})
        except (KeyError, TypeError) as error:
            raise ConfigError(f"{path} is damaged ({error}); remove the folder {path.parent}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
        if isinstance(data, dict):
            return data
        reason = "it holds no object"
    except ValueError as error:
        reason = str(error)
    raise ConfigError(f"{path} is damaged ({reason}); remove it, or choose another --out")


def _dump(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()
