"""The files of a data set that is published as TFRecords."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sft.sources.protos import features
from sft.sources.report import Counts
from sft.sources.tfrecord import RecordFault, read_records

_BESIDE = {".json", ".md", ".txt", ".csv", ".part", ".log"}
"""Endings of what lies beside the shards: split files, notes, downloads that were not finished."""


def tfrecord_files(path: Path, format: str) -> list[Path]:
    """The file itself, or all files below a folder by name; hidden ones and notes are left out. Raises ValueError."""
    if path.is_file():
        return [path]

    def is_shard(file: Path) -> bool:
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        return file.is_file() and file.suffix not in _BESIDE and not hidden

    found = sorted(filter(is_shard, path.rglob("*")))
    if not found:
        raise ValueError(f"{format}: no files in {path}; give the folder with the data set's TFRecord files")
    return found


def check_first_record(file: Path, format: str, required: Sequence[str]) -> None:
    """Raises ValueError unless the file starts with a record that has the features of the data set."""
    try:
        first = next(read_records(file), None)
    except RecordFault as fault:
        raise ValueError(f"{format}: {fault}") from None
    if first is None:
        raise ValueError(f"{format}: {file} is empty")
    try:
        found = features(first)
    except ValueError as fault:
        raise ValueError(f"{format}: {file}, record 0: {fault}") from None
    if missing := [name for name in required if name not in found]:
        raise ValueError(f"{format}: {file} is of another data set: its records have no {', '.join(missing)}")


def records(file: Path, counts: Counts) -> Iterator[bytes]:
    """The records of a file up to its end or its first fault, which is counted."""
    try:
        yield from read_records(file)
    except RecordFault as fault:
        counts.file_fault(fault)
    else:
        counts.files += 1
