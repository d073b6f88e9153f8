"""Reads and writes mini-batches: `batches/iter-000010/step-00.jsonl` and `batches/screens/<sha256>.png`.

One line per sample, with the fields of `TrainingSample`. Reading returns exactly what was written, so that an optimizer
step can be taken again, by another engine, version or card.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from mobilerl.records import TrainingSample
from mobilerl.records.screens import ScreenFolder
from mobilerl.system.atomic_files import write_atomic

FOLDER = "batches"
_TUPLES = ("prompt_ids", "response_ids", "rollout_logprobs", "old_logprobs", "ref_logprobs")


def keep_batches(
    run_dir: Path, iteration: int, batches: Iterable[Sequence[TrainingSample]], keep: int
) -> Iterator[Sequence[TrainingSample]]:
    """Yields the mini-batches of an iteration, each written before it is used; keeps those of `keep` iterations."""
    root = run_dir / FOLDER
    folder = root / f"iter-{iteration:06d}"
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped in this iteration, and resumed
    screens = ScreenFolder(root / "screens", sync=False)
    for number, batch in enumerate(batches):
        lines = [json.dumps(_to_json(sample, screens)) + "\n" for sample in batch]
        write_atomic(folder / f"step-{number:02d}.jsonl", "".join(lines).encode("ascii"))
        yield batch
    _remove_older(root, keep)


def read_batches(folder: Path) -> list[list[TrainingSample]]:
    """The mini-batches of an iteration's folder, in order. Raises ValueError that names what is damaged or missing."""
    files = sorted(folder.glob("step-*.jsonl"))
    if not files:
        raise ValueError(f"{folder} has no mini-batches (step-00.jsonl ...); train.keep_batches keeps them")
    screens = ScreenFolder(folder.parent / "screens")
    return [_read(file, screens) for file in files]


def _read(file: Path, screens: ScreenFolder) -> list[TrainingSample]:
    batch = []
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        try:
            batch.append(_from_json(json.loads(line), screens))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{file}, line {number}: not a sample ({error})") from None
    return batch


def _to_json(sample: TrainingSample, screens: ScreenFolder) -> dict[str, Any]:
    record = {field.name: getattr(sample, field.name) for field in fields(sample)}
    return record | {"images": [screens.put(png) for png in sample.images]}


def _from_json(record: dict[str, Any], screens: ScreenFolder) -> TrainingSample:
    values = {name: tuple(record[name]) for name in _TUPLES if record[name] is not None}
    return TrainingSample(**record | values | {"images": tuple(map(screens.get, record["images"]))})


def _remove_older(root: Path, keep: int) -> None:
    """Removes all but the newest `keep` iterations, and the screens that none of these has."""
    folders = sorted(root.glob("iter-*"))
    for folder in folders[:-keep]:
        shutil.rmtree(folder)
    kept = {
        digest
        for file in root.glob("iter-*/step-*.jsonl")
        for line in file.read_text().splitlines()
        for digest in json.loads(line)["images"]
    }
    for screen in (root / "screens").glob("*.png"):
        if screen.stem not in kept:
            screen.unlink()
