"""Preference pairs of single replies, and their file: `pairs.jsonl` beside `screens/<sha256>.png` in a run directory.

One line per pair, a JSON object in ASCII. Schema 1:

    schema                  1
    id                      what the pair is of, unique in the file
    prompt_ids, images      what both replies answer; images are names of screens
    chosen_ids, rejected_ids    the replies' tokens, with the token that ends them where there is one
    note                    for people: texts, levels, who proposed the rejected reply
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mobilerl.atomic_files import write_atomic
from mobilerl.records import Row
from mobilerl.screen_files import ScreenFolder
from mobilerl.trajectory_files import read_records

SCHEMA = 1
PAIRS_FILE, SCREENS = "pairs.jsonl", "screens"


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """Two replies to one prompt, of which `chosen` is the better one."""

    id: str
    prompt_ids: tuple[int, ...]
    images: tuple[bytes, ...]
    chosen_ids: tuple[int, ...]
    rejected_ids: tuple[int, ...]
    note: Mapping[str, Any] = field(default_factory=dict)

    def rows(self) -> tuple[Row, Row]:
        """The chosen reply and the rejected one, as an engine scores them. No sampler has drawn the chosen one."""
        return self._row("chosen", 0, self.chosen_ids), self._row("rejected", 1, self.rejected_ids)

    def _row(self, which: str, step: int, ids: tuple[int, ...]) -> Row:
        return Row(f"{self.id}/{which}", step, self.prompt_ids, ids, (0.0,) * len(ids), self.images, 0)


def write_pairs(pairs: Sequence[PreferencePair], run_dir: Path) -> None:
    """Writes the file whole; the screens are on disk before it."""
    screens = ScreenFolder(run_dir / SCREENS)
    lines = [
        json.dumps({
            "schema": SCHEMA, "id": p.id, "prompt_ids": p.prompt_ids, "images": [screens.put(png) for png in p.images],
            "chosen_ids": p.chosen_ids, "rejected_ids": p.rejected_ids, "note": dict(p.note),
        })
        for p in pairs
    ]  # fmt: skip
    write_atomic(run_dir / PAIRS_FILE, "".join(line + "\n" for line in lines).encode())


def read_pairs(run_dir: Path) -> list[PreferencePair]:
    """What `write_pairs` wrote. Raises ValueError naming file and line for anything else."""
    path, screens = run_dir / PAIRS_FILE, ScreenFolder(run_dir / SCREENS)
    found: dict[str, PreferencePair] = {}
    for number, record in read_records(path):
        try:
            ids = [tuple(map(int, record[name])) for name in ("prompt_ids", "chosen_ids", "rejected_ids")]
            images = tuple(screens.get(digest) for digest in record["images"])
            pair = PreferencePair(record["id"], ids[0], images, ids[1], ids[2], dict(record["note"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {number}: not a preference pair ({error}); delete the file") from None
        if not all(ids) or pair.id in found:
            what = "an empty prompt or reply" if not all(ids) else f"a second pair {pair.id!r}"
            raise ValueError(f"{path}, line {number}: {what}; delete the file to have it made anew")
        found[pair.id] = pair
    return list(found.values())
