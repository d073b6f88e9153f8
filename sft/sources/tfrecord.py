"""TFRecord files without TensorFlow.

A file is a row of records, each `length (uint64) | crc of length (uint32) | data | crc of data (uint32)`,
little-endian; the CRCs are CRC-32C, masked. A file may be compressed with GZIP as a whole, which its first bytes tell.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sft.sources.crc32c import crc32c

LONGEST = 1 << 30
"""Bytes of a record that are read; whatever claims to be longer is taken for damage."""
_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_GZIP = b"\x1f\x8b"


class RecordFault(ValueError):
    """A file cannot be read any further. What came before the fault is sound."""


def masked(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def read_records(path: Path | str) -> Iterator[bytes]:
    """The records of a file in order, each checked before it is given. Raises RecordFault at the first fault.

    A file that was cut exactly between two records cannot be told from a shorter one, unless it is compressed.
    """
    path, number = Path(path), 0
    try:
        with path.open("rb") as raw:
            packed = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
            with gzip.GzipFile(fileobj=raw) if packed else raw as stream:
                while (data := _next(stream)) is not None:
                    yield data
                    number += 1
    except RecordFault as fault:
        raise RecordFault(f"{path}, record {number}: {fault}") from None
    except EOFError:
        raise RecordFault(f"{path}, record {number}: the GZIP stream is cut short") from None
    except (OSError, zlib.error) as fault:  # gzip.BadGzipFile is an OSError
        raise RecordFault(f"{path}, record {number}: {fault}") from None


def _next(stream: BinaryIO) -> bytes | None:
    """One record; None at the end of the file."""
    header = stream.read(_HEADER.size)
    if not header:
        return None
    if len(header) < _HEADER.size:
        raise RecordFault("the file ends within a record's length")
    length, check = _HEADER.unpack(header)
    if masked(crc32c(header[:8])) != check:
        raise RecordFault("the check sum of the length is wrong: not a TFRecord file, or a damaged one")
    if length > LONGEST:
        raise RecordFault(f"a record of {length} bytes is longer than the {LONGEST} that are read")
    data, footer = stream.read(length), stream.read(_FOOTER.size)
    if len(data) < length or len(footer) < _FOOTER.size:
        raise RecordFault("the file ends within a record")
    if masked(crc32c(data)) != _FOOTER.unpack(footer)[0]:
        raise RecordFault("the check sum of the data is wrong")
    return data
