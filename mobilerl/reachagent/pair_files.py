"""Preference pairs and their file, from which one pair at a time is read.

The pairs are stored in `pairs.jsonl` beside `screens/<sha256>.png` of the run directory, one JSON object per line:

    schema                      1
    id                          unique in the file
    prompt_ids, images          the prompt of both responses; images are names of screens
    chosen_ids, rejected_ids    the responses' tokens, including the end token if there is one
    note                        for people: texts, levels, source of the rejected response
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from mobilerl.records import TrainingSample
from mobilerl.records.screens import ScreenFolder
from mobilerl.system.atomic_files import sync_path

SCHEMA = 1
PAIRS_FILE, SCREENS = "pairs.jsonl", "screens"


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """Two responses to one prompt; `chosen` is the better one."""

    id: str
    prompt_ids: tuple[int, ...]
    images: tuple[bytes, ...]
    chosen_ids: tuple[int, ...]
    rejected_ids: tuple[int, ...]
    note: Mapping[str, Any] = field(default_factory=dict)

    def samples(self) -> tuple[TrainingSample, TrainingSample]:
        """The chosen and the rejected response as samples for an engine; their rollout log-probabilities are zeros."""
        return self._sample("chosen", 0, self.chosen_ids), self._sample("rejected", 1, self.rejected_ids)

    def _sample(self, which: str, step: int, ids: tuple[int, ...]) -> TrainingSample:
        return TrainingSample(f"{self.id}/{which}", step, self.prompt_ids, ids, (0.0,) * len(ids), self.images, 0)


def write_pairs(pairs: Iterable[PreferencePair], run_dir: Path) -> None:
    """Writes the screens and then pairs.jsonl, one pair after another."""
    screens, unfinished = ScreenFolder(run_dir / SCREENS), run_dir / f".{PAIRS_FILE}"
    with open(unfinished, "w", encoding="utf-8") as file:
        for pair in pairs:
            record = {"schema": SCHEMA, "id": pair.id, "prompt_ids": pair.prompt_ids}
            record |= {"images": [screens.put(png) for png in pair.images], "chosen_ids": pair.chosen_ids}
            record |= {"rejected_ids": pair.rejected_ids, "note": dict(pair.note)}
            file.write(json.dumps(record) + "\n")
    sync_path(unfinished)
    unfinished.rename(run_dir / PAIRS_FILE)


class StoredPairs(Sequence[PreferencePair]):
    """The pairs of `write_pairs`."""

    def __init__(self, run_dir: Path) -> None:
        self._screens, self._path = run_dir / SCREENS, run_dir / PAIRS_FILE
        with open(self._path, "rb") as file:
            self._ends = list(accumulate(map(len, file)))

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> PreferencePair:  # type: ignore[override]  # there are no slices
        position = range(len(self))[index]
        with open(self._path, "rb") as file:
            file.seek(self._ends[position - 1] if position else 0)
            record = json.loads(file.readline())
        if record["schema"] != SCHEMA:
            raise ValueError(f"{self._path}: schema {record['schema']!r}; this version of mobilerl reads {SCHEMA}")
        prompt, chosen, rejected = (tuple(record[name]) for name in ("prompt_ids", "chosen_ids", "rejected_ids"))
        screens = ScreenFolder(self._screens)  # keeps what it reads
        images = tuple(screens.get(digest) for digest in record["images"])
        return PreferencePair(record["id"], prompt, images, chosen, rejected, record["note"])
