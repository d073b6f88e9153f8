"""TFRecord framing and the protocol buffers inside, against files made without the code that reads them."""

import gzip
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_files import framed, save_forest

from mobilerl.policy.screen import parse_screen
from mobilerl.sft.sources.screens import annotations_xml, forest_xml
from mobilerl.sft.sources.tfrecord import RecordFault, read_records

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


@pytest.mark.parametrize("data", [b"PK\x03\x04 an archive", b"{}", bytes(12), b"\x1f\x8bnot really gzip", b"x" * 5000])
def test_a_foreign_file_gives_nothing(folder, data):
    read, fault = read_all(stored(folder, data))
    assert read == [] and "shard-00000-of-00001, record 0" in fault


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


def test_annotations_are_y_x_height_width():
    xml = annotations_xml([0.25, 0.1, 0.5, 0.8], ["Wi-Fi"], ["TEXT"], 100, 200)
    element = parse_screen(xml, 100, 200).elements[0]
    assert element.text == "Wi-Fi"
    assert element.box == (100, 250, 899, 749)  # left 10 px, top 50, right 90, bottom 150
