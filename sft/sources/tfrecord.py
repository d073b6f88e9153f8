"""Reads TFRecord files of `tf.train.Example` records without TensorFlow.

A file is a sequence of records, each `length (uint64) | crc of length (uint32) | data | crc of data (uint32)`,
little-endian; the CRCs are masked CRC-32C. The whole file may be compressed with GZIP.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import google_crc32c

from mobilerl.sft.sources.protos import parse
from mobilerl.sft.sources.report import Counts, Reject

MAX_RECORD = 1 << 30
"""Maximum bytes of a record; a longer one is treated as damaged."""
_GZIP = b"\x1f\x8b"
_OTHER_FILES = {".json", ".md", ".txt", ".csv", ".part", ".log"}
"""Suffixes of files beside the shards: split files, notes, incomplete downloads."""

Features = dict[str, list[Any]]


class RecordFault(ValueError):
    """The rest of a file cannot be read. The records before the fault are intact."""


def read_records(path: Path | str) -> Iterator[bytes]:
    """Yields the records of a file, each verified. Raises RecordFault at the first fault.

    Truncation exactly between two records is detected only in compressed files.
    """
    path, number = Path(path), 0
    try:
        with path.open("rb") as raw:
            compressed = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
            with gzip.GzipFile(fileobj=raw) if compressed else raw as stream:
                while header := stream.read(12):
                    yield _record(header, stream)
                    number += 1
    except RecordFault as fault:
        raise RecordFault(f"{path}, record {number}: {fault}") from None
    except EOFError:
        raise RecordFault(f"{path}, record {number}: the GZIP stream is truncated") from None
    except (OSError, zlib.error) as fault:  # gzip.BadGzipFile is an OSError
        raise RecordFault(f"{path}, record {number}: {fault}") from None


def _record(header: bytes, stream: BufferedIOBase) -> bytes:
    if len(header) < 12:
        raise RecordFault("the file ends within a record's length")
    length, check = struct.unpack("<QI", header)
    if masked_crc(header[:8]) != check:
        raise RecordFault("wrong checksum of the length: not a TFRecord file, or a damaged one")
    if length > MAX_RECORD:
        raise RecordFault(f"a record of {length} bytes is longer than {MAX_RECORD}")
    data, footer = stream.read(length), stream.read(4)
    if len(data) < length or len(footer) < 4:
        raise RecordFault("the file ends within a record")
    if masked_crc(data) != struct.unpack("<I", footer)[0]:
        raise RecordFault("wrong checksum of the data")
    return data


def masked_crc(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def features(data: bytes) -> Features:
    """The features of a serialized `tf.train.Example`. Raises Reject if there are none, or for other data."""
    found: Features = {}
    try:
        entries = parse("Example", data).features.feature
    except ValueError:
        entries = ()
    for entry in entries:
        value = entry.value
        found[entry.key] = list(value.bytes_list.value or value.float_list.value or value.int64_list.value)
    if not found:
        raise Reject("record is not a tf.train.Example")
    return found


def tfrecord_files(path: Path, format: str) -> list[Path]:
    """The file itself, or all shards below a folder by name. Raises ValueError if there are none."""
    if path.is_file():
        return [path]

    def is_shard(file: Path) -> bool:
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        return file.is_file() and file.suffix not in _OTHER_FILES and not hidden

    found = sorted(filter(is_shard, path.rglob("*")))
    if not found:
        raise ValueError(f"{format}: no files in {path}; give the folder with the data set's TFRecord files")
    return found


def records(file: Path, counts: Counts) -> Iterator[bytes]:
    """Yields the records of a file up to its end or its first fault, which is counted."""
    try:
        yield from read_records(file)
    except RecordFault as fault:
        counts.faults.append(str(fault))
