"""TFRecord framing and the protocol buffers inside, against files made without the code that reads them."""

import gzip
import random
import struct

import pytest
from hypothesis import example as also
from hypothesis import given, settings
from hypothesis import strategies as st
from source_files import crc32c as by_definition
from source_files import example, forest, framed, node, save_forest, window

from mobilerl.agent.screen import parse_screen
from sft.sources.crc32c import crc32c
from sft.sources.layout import annotations_xml, forest_xml
from sft.sources.protos import features
from sft.sources.tfrecord import LONGEST, RecordFault, read_records

RECORDS = [b"first", b"", random.Random(1).randbytes(700), b"last"]


def read_all(path) -> tuple[list[bytes], str]:
    """What comes before the fault, and the fault ("" for none)."""
    read = []
    try:
        for record in read_records(path):
            read.append(record)
    except RecordFault as fault:
        return read, str(fault)
    return read, ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("records")


def stored(folder, data: bytes):
    path = folder / "shard-00000-of-00001"
    path.write_bytes(data)
    return path


# --- check sums --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data, crc",
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43),
     (bytes(range(32)), 0x46DD794E)],
)  # fmt: skip
def test_check_sums_of_the_standard(data, crc):  # RFC 3720, B.4
    assert crc32c(data) == crc


@settings(max_examples=30)
@given(st.integers(0, 6000), st.integers(0, 99))
@also(256, 0)
@also(1024, 0)
@also(3 * 1024, 0)
@also(3 * 1024 + 1, 0)
def test_the_fast_check_sum_is_the_defined_one(length, seed):
    data = random.Random(seed).randbytes(length)
    assert crc32c(data) == by_definition(data)


# --- framing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_records_come_back(folder, packed):
    data = framed(RECORDS)
    assert read_all(stored(folder, gzip.compress(data) if packed else data)) == (RECORDS, "")


@settings(max_examples=300)
@given(st.data())
def test_no_flipped_byte_is_accepted(folder, data):
    sound = framed(RECORDS)
    at, mask = data.draw(st.integers(0, len(sound) - 1)), data.draw(st.integers(1, 255))
    damaged = bytearray(sound)
    damaged[at] ^= mask
    read, fault = read_all(stored(folder, bytes(damaged)))
    assert fault
    assert read == RECORDS[: len(read)]
    assert len(read) == sum(1 for n in range(1, 5) if len(framed(RECORDS[:n])) <= at)


def test_every_cut_is_noticed_but_between_records(folder):
    sound = framed(RECORDS)
    ends = [len(framed(RECORDS[:n])) for n in range(5)]
    for length in range(len(sound)):
        read, fault = read_all(stored(folder, sound[:length]))
        assert read == RECORDS[: sum(1 for end in ends[1:] if end <= length)]
        assert bool(fault) == (length not in ends)


def test_every_cut_of_a_packed_file_is_noticed(folder):
    sound = gzip.compress(framed(RECORDS))
    for length in range(1, len(sound)):
        read, fault = read_all(stored(folder, sound[:length]))
        assert fault and read == RECORDS[: len(read)]


@settings(max_examples=200)
@given(st.data())
def test_no_flipped_byte_of_a_packed_file_changes_a_record(folder, data):
    sound = gzip.compress(framed(RECORDS))
    at, mask = data.draw(st.integers(0, len(sound) - 1)), data.draw(st.integers(1, 255))
    damaged = bytearray(sound)
    damaged[at] ^= mask
    read, fault = read_all(stored(folder, bytes(damaged)))
    assert read == RECORDS[: len(read)]
    assert fault or read == RECORDS  # the time and the name in a GZIP header may be anything


@pytest.mark.parametrize("data", [b"PK\x03\x04 an archive", b"{}", bytes(12), b"\x1f\x8bnot really gzip", b"x" * 5000])
def test_a_foreign_file_gives_nothing(folder, data):
    read, fault = read_all(stored(folder, data))
    assert read == [] and "shard-00000-of-00001, record 0" in fault


def test_a_record_that_claims_to_be_huge_is_not_waited_for(folder):
    length = struct.pack("<Q", LONGEST + 1)
    crc = by_definition(length)
    check = ((crc >> 15 | crc << 17) & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF
    read, fault = read_all(stored(folder, length + struct.pack("<I", check)))
    assert read == [] and "longer than" in fault


# --- messages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [True, False])
def test_features_of_an_example(packed):
    made = {"text": [b"one", b""], "numbers": [3, -1, 0], "shares": [0.5, -1.0], "zero": [0]}
    assert features(example(made, packed)) == made


@pytest.mark.parametrize("data", [b"", b"\x0a", b"no message at all", b"\x0a\x02\x0a\x7f"])
def test_what_is_no_example_is_refused(data):
    with pytest.raises(ValueError, match="Example"):
        features(data)


def test_the_active_window_becomes_a_dump():
    xml, package = forest_xml(save_forest())
    assert package == "com.example.notes"
    screen = parse_screen(xml, 108, 240)
    # Pixels to 0-999: Save is [14,180][94,220] of 108x240. The status bar and what is invisible are left out.
    assert [(e.text, e.role, e.box) for e in screen.elements] == [
        ("My notes", "button", (0, 0, 999, 166)),
        ("Title", "field", (92, 416, 906, 583)),
        ("Save", "button", (130, 749, 870, 916)),
    ]
    assert not screen.elements[0].actions and screen.elements[2].actions == ("click",)


@pytest.mark.parametrize(
    "data",
    [b"junk", forest(), forest(window([])),
     forest(window([node(i, (0, 0, 9, 9), [i + 1], text="x") for i in range(5000)]))],
    ids=["foreign", "no windows", "no nodes", "deeper than any screen"],
)  # fmt: skip
def test_a_tree_that_cannot_be_a_screen_is_refused(data):
    with pytest.raises(ValueError):
        forest_xml(data)


def test_a_tree_with_a_cycle_ends():
    data = forest(window([node(0, (0, 0, 99, 99), [1], text="a"), node(1, (0, 0, 50, 50), [0, 1], text="b\x07<&")]))
    xml, _ = forest_xml(data)
    assert [e.text for e in parse_screen(xml, 100, 100).elements] == ["a", "b<&"]


def test_annotations_are_y_x_height_width():
    xml = annotations_xml([0.25, 0.1, 0.5, 0.8], ["Wi-Fi"], ["TEXT"], 100, 200)
    element = parse_screen(xml, 100, 200).elements[0]
    assert element.text == "Wi-Fi"
    assert element.box == (100, 250, 899, 749)  # left 10 px, top 50, right 90, bottom 150


@pytest.mark.parametrize("boxes, texts, kinds", [([0.1] * 3, ["a"], ["b"]), ([0.1] * 4, ["a"], [])])
def test_annotations_that_do_not_go_together_are_refused(boxes, texts, kinds):
    with pytest.raises(ValueError, match="annotations"):
        annotations_xml(boxes, texts, kinds, 100, 200)


def test_what_comes_before_a_fault_is_read_first(folder):
    records = read_records(stored(folder, framed([b"sound"]) + b"damaged"))
    assert next(records) == b"sound"
    with pytest.raises(RecordFault, match="record 1"):
        next(records)
