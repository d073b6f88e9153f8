"""Data sets from elsewhere: TFRecord files, protocol buffers, episodes of the published formats."""

from __future__ import annotations

import atexit
import shutil
import struct
import sys
import tempfile
from pathlib import Path

from damage import damaged_bytes, damaged_json
from fuzzing import Target
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[1] / "unit"))

from source_files import control_episode, example, framed, gesture, save_forest, wild_step  # noqa: E402

from mobilerl.agent.screen import parse_screen  # noqa: E402
from sft.sources import aitw, androidcontrol  # noqa: E402
from sft.sources.crc32c import crc32c  # noqa: E402
from sft.sources.layout import forest_xml  # noqa: E402
from sft.sources.protos import features  # noqa: E402
from sft.sources.report import Counts  # noqa: E402
from sft.sources.tfrecord import RecordFault, read_records  # noqa: E402

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
    crc = crc32c(length)
    return length + struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


RECORD_WORDS = [_length(n) for n in (0, 1 << 20, (1 << 30) - 1, (1 << 30) + 1, 1 << 40, (1 << 64) - 1)]

# --- protocol buffers --------------------------------------------------------------------------------------------

PROTO_WORDS = [b"\x0a\x02", b"\x0a\xff\xff\xff\xff\x0f", b"\xff" * 10, b"\x0a" * 200, b"\x12\x00"]


def _features(data: bytes) -> None:
    try:
        found = features(data)
    except ValueError:
        return
    assert found


def _forest(data: bytes) -> None:
    try:
        xml, _ = forest_xml(data)
    except ValueError:
        return
    assert not parse_screen(xml, 100, 100).error


# --- episodes ----------------------------------------------------------------------------------------------------


def _plain(record: dict) -> dict:
    return {k: [v.decode("latin-1") if isinstance(v, bytes) else v for v in values] for k, values in record.items()}


def _packed(record: object) -> bytes | None:
    """The record as an Example, where it can be written as one: TensorFlow's lists hold one type each."""
    if not isinstance(record, dict):
        return None
    fields = {}
    for name, values in record.items():
        values = values if isinstance(values, list) else [values]
        kinds = {type(v) for v in values}
        if kinds == {str}:
            fields[name] = [v.encode("latin-1", "replace") for v in values]
        elif kinds == {int} or kinds == {float}:
            fields[name] = values
    try:
        return example(fields)
    except (struct.error, OverflowError, UnicodeEncodeError):
        return None


SCROLL = {"action_type": "scroll", "direction": "up"}
CONTROL = [_plain(control_episode()), _plain(control_episode(1, "Scroll", [SCROLL]))]
WILD = [_plain(wild_step()), _plain(wild_step(**gesture((0.2, 0.3), (0.7, 0.3))))]


def _episodes(reader: object) -> object:
    def check(record: object) -> None:
        data = _packed(record)
        if data is None:
            return
        FILE.write_bytes(framed([data], crc32c))
        counts = Counts()
        for demo in reader.read(FILE, lambda key, split="": True, counts):  # type: ignore[attr-defined]
            assert demo.task.instruction
            for step in demo.steps:
                if step.xml:
                    assert not parse_screen(step.xml, step.width, step.height).error

    return check


JSON_ACTIONS = st.sampled_from([
    '{"action_type": "click", "x": 1' + "0" * 400 + ', "y": 3}', '{"action_type": "click", "x": NaN, "y": 3}',
    '{"action_type": ' + "[" * 2000, '{"action_type": "input_text", "text": 5}', '{"action_type": []}', "[]",
])  # fmt: skip


@st.composite
def _control_records(draw: st.DrawFn) -> object:
    record = draw(damaged_json(CONTROL))
    if isinstance(record, dict) and draw(st.integers(0, 3)) == 0:
        record = {**CONTROL[0], "actions": [draw(JSON_ACTIONS)] * 2}
    return record


TARGETS = [
    Target("tfrecord", damaged_bytes([framed([b"first", b"", b"x" * 700], crc32c)], RECORD_WORDS), _records),
    Target("example", damaged_bytes([example(control_episode(screenshots=[b"png"] * 3)), example(wild_step())[:400]],
                                    PROTO_WORDS), _features),
    Target("forest", damaged_bytes([save_forest()], PROTO_WORDS), _forest),
    Target("androidcontrol", _control_records(), _episodes(androidcontrol)),
    Target("aitw", damaged_json(WILD), _episodes(aitw)),
]  # fmt: skip
