"""The proposals of a round of stage 2 on disk: `proposals/ROUND.jsonl` in a run directory, one line for each.

A line is written before its proposal is used, so that a killed run has lost none that was answered, and asks only for
those that are missing. Lines are never changed. docs/files.md lists their fields.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from xxhash import xxh3_64_intdigest

from mobilerl.system.atomic_files import write_atomic

FOLDER = "proposals"


def log_of(run_dir: Path, stage: str) -> Path:
    return run_dir / FOLDER / f"{stage}.jsonl"


def write_proposal_metrics(run_dir: Path, stage: str, metrics: Mapping[str, float]) -> None:
    """Writes the metrics of a finished round, which the first line of its training in metrics.jsonl repeats."""
    write_atomic(log_of(run_dir, stage).with_suffix(".json"), json.dumps(metrics).encode() + b"\n")


def read_proposal_metrics(run_dir: Path, stage: str) -> dict[str, float]:
    """The metrics of a stage's proposals; {} if it has none."""
    path = log_of(run_dir, stage).with_suffix(".json")
    return json.loads(path.read_bytes()) if path.is_file() else {}


class ProposalLog:
    """Answers by step and number of the candidate. In memory are about 150 bytes for each."""

    def __init__(self, path: Path, proposer: str) -> None:
        """Opens a file, or makes one, and removes a last line that was cut off. Raises ValueError for another line that
        cannot be read. `proposer` names the model; answers of others are kept, but not returned."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.proposer = path, proposer
        self.prompt_tokens = self.completion_tokens = 0
        """Tokens of this proposer's answers, where its server counts them."""
        self._places: dict[int, int] = {}
        """Key -> offset in the file."""
        self._out = open(path, "ab", buffering=0)
        self._in = open(path, "rb")
        end = 0
        for number, line in enumerate(self._in, start=1):
            if line.endswith(b"\n"):
                self._index(self._read(line, number), end)
                end += len(line)
        os.ftruncate(self._out.fileno(), end)
        self._end = end

    def __len__(self) -> int:
        return len(self._places)

    def __enter__(self) -> ProposalLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._out.close()
        self._in.close()
        if not self._end:
            self.path.unlink()

    def find(self, step: str, candidate: int) -> str | None:
        """The answer; None if there is none."""
        place = self._places.get(self._key(self.proposer, step, candidate))
        if place is None:
            return None
        self._in.seek(place)
        return json.loads(self._in.readline())["text"]

    def add(self, step: str, candidate: int, text: str, tokens: tuple[int, int], **more: Any) -> None:
        """Appends an answer; `tokens` are those of prompts and responses since the one before."""
        record = {"proposer": self.proposer, "step": step, "candidate": candidate, **more, "tokens": tokens}
        line = json.dumps({**record, "text": text}).encode() + b"\n"
        place, self._end = self._end, self._end + len(line)
        if self._out.write(line) != len(line):
            raise OSError(f"{self.path}: a line could not be written completely; the disk may be full")
        self._index(record, place)

    def _read(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            record = json.loads(line)
            self._key(record["proposer"], record["step"], record["candidate"])
            prompt, completion = record["tokens"]
            if not isinstance(record["text"], str):
                raise ValueError("`text` is no text")
            return record
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(f"{self.path}, line {number} is damaged ({error}): delete this line") from None

    def _index(self, record: dict[str, Any], place: int) -> None:
        if record["proposer"] == self.proposer:
            self._places[self._key(self.proposer, record["step"], record["candidate"])] = place
            prompt, completion = record["tokens"]
            self.prompt_tokens += prompt
            self.completion_tokens += completion

    @staticmethod
    def _key(proposer: str, step: str, candidate: int) -> int:
        return xxh3_64_intdigest(f"{proposer}\0{step}\0{candidate}".encode())
