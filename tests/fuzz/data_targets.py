"""Data sets from elsewhere: TFRecord files and protocol buffers."""

from __future__ import annotations

import atexit
import shutil
import struct
import sys
import tempfile
from pathlib import Path

from damage import damaged_bytes
from fuzzing import Target

sys.path.append(str(Path(__file__).parents[1] / "unit"))

from google_crc32c import value as crc32c  # noqa: E402
from source_files import control_episode, example, framed, save_forest, wild_step  # noqa: E402

from mobilerl.policy.screen import parse_screen  # noqa: E402
from mobilerl.sft.sources.report import Reject  # noqa: E402
from mobilerl.sft.sources.screens import forest_xml  # noqa: E402
from mobilerl.sft.sources.tfrecord import RecordFault, features, masked_crc, read_records  # noqa: E402

FILE = Path(tempfile.mkdtemp(prefix="mobilerl-fuzz-")) / "shard-00000-of-00001"
atexit.register(shutil.rmtree, FILE.parent, True)


def _records(data: bytes) -> None:
    FILE.write_bytes(data)
    try:
        for record in read_records(FILE):
            assert len(record) <= len(data) or data[:2] == b"\x1f\x8b"
    except RecordFault as fault:
        assert str(FILE) in str(fault)


def _length(value: int) -> bytes:
    """A record's head that claims this length, with the right check sum."""
    length = struct.pack("<Q", value)
    return length + struct.pack("<I", masked_crc(length))


RECORD_WORDS = [_length(n) for n in (0, 1 << 20, (1 << 30) - 1, (1 << 30) + 1, 1 << 40, (1 << 64) - 1)]

# --- protocol buffers --------------------------------------------------------------------------------------------

PROTO_WORDS = [b"\x0a\x02", b"\x0a\xff\xff\xff\xff\x0f", b"\xff" * 10, b"\x0a" * 200, b"\x12\x00"]


def _features(data: bytes) -> None:
    try:
        found = features(data)
    except Reject:
        return
    assert found


def _forest(data: bytes) -> None:
    try:
        xml, _ = forest_xml(data)
    except ValueError:
        return
    assert not parse_screen(xml, 100, 100).error


TARGETS = [
    Target("tfrecord", damaged_bytes([framed([b"first", b"", b"x" * 700], crc32c)], RECORD_WORDS), _records),
    Target(
        "example",
        damaged_bytes([example(control_episode(screenshots=[b"png"] * 3)), example(wild_step())[:400]], PROTO_WORDS),
        _features,
    ),
    Target("forest", damaged_bytes([save_forest()], PROTO_WORDS), _forest),
]
