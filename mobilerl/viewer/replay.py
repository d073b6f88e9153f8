"""Content of the replay buffer at the newest checkpoint of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mobilerl.models.checkpoint_folder import STATE_FILE, checkpoints, iteration_of
from mobilerl.viewer.episodes import Cache, Source, build_source
from mobilerl.viewer.steps import Decode

REPLAY_FILE = "replay.jsonl"
FIELDS = ("iteration", "advantage", "rarity")
"""Fields of an entry that the page shows: its iteration, and values that the algorithm orders it by (null if none)."""


def write_replay(run: Path, view: Path, folder: str, cache: Cache, decode: Decode | None) -> dict[str, Any]:
    """Writes the steps of the buffer's trajectories and returns its `iteration`, `source`, `tasks`, `rows`, `entries`.

    Rows are those of `episodes.build_source`, and the entry at the same position has the FIELDS. Returns {} without a
    checkpoint or buffer. Raises ValueError naming a file that cannot be read.
    """
    checkpoint = next(reversed(checkpoints(run)), None)
    if checkpoint is None or not (checkpoint / REPLAY_FILE).is_file():
        return {}
    newest, path = iteration_of(checkpoint.name), checkpoint / STATE_FILE
    try:
        state = json.loads(path.read_bytes())["replay"]
        entries = [[entry.get(name) for name in FIELDS] for entry in state["entries"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: no state of a replay buffer in it: {error!r}") from error
    screens = f"checkpoints/{checkpoint.name}/screens"
    source = Source(checkpoint / REPLAY_FILE, f"replay-{newest:06d}", "replay buffer", None, screens)
    built = build_source(source, run, view, folder, cache, decode)
    if len(built["rows"]) != len(entries):
        raise ValueError(f"{source.path} has {len(built['rows'])} trajectories, but {path} has {len(entries)}")
    return {"iteration": newest, "source": source.about(len(entries)), "entries": entries} | {
        name: built[name] for name in ("tasks", "rows")
    }
