"""Fonts: which draws what, that what is measured is what is drawn, order of mixed directions, wrapping and ellipses."""

from __future__ import annotations

import time

import pytest

from mobilerl.envs.phone import fonts
from mobilerl.envs.phone.bidi import levels, visual_order

TEXTS = (
    "Wednesday 18 October",
    "Zoë",
    "Привет",
    "Ελλάδα",
    "שלום",
    "مرحبا",
    "नमस्ते",
    "你好",
    "한국어",
    "👍🏽",
    "Zoë مرحبا 12:30 你好 😀",
)


def ink_end(text: str, size: float) -> float:
    """Right end of what is drawn, in px."""
    return max(x + part.width for x, _, part in fonts.draw_line(text, size, False))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [13, 16.1, 45])
def test_a_text_is_drawn_as_wide_as_it_is_measured(text, size):
    assert ink_end(text, size) == pytest.approx(fonts.text_width(text, size), abs=0.25 * size)


def test_latin_greek_and_cyrillic_need_no_font_of_the_machine():
    assert {run.font for text in ("Zoë", "Ελλάδα", "Привет", "€5 – “ok” … ×") for run in fonts.runs(text)} == {
        fonts.ROBOTO
    }


def test_a_character_without_a_font_is_a_box_and_breaks_nothing():
    text = "a\ud800b\ue123\n\tc\u200d"
    assert fonts.missing(text) and not fonts.missing("a\n\tc\u200d")
    assert [run.text for run in fonts.runs(text) if not run.font] == ["\ud800", "\ue123"]
    assert fonts.draw_line(text, 15, True)


@pytest.mark.skipif("emoji" not in fonts.stack(), reason="no Noto Color Emoji here")
def test_an_emoji_sequence_is_one_image():
    images = [part for *_, part in fonts.draw_line("hi 👨‍👩‍👧 ❤️", 20, False) if part.mode == "RGBA"]
    assert len(images) == 2 and images[0].size == images[1].size


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("abc", "abc"),
        ("אבג", "גבא"),
        ("Call אבג 123, ok", "Call 123 גבא, ok"),
        ("אבג Anna 12:30 (דה)", "(הד) Anna 12:30 גבא"),
        ("אב, גד", "דג ,בא"),
    ],
)
def test_directions_are_mixed_as_unicode_says(text, shown):
    """With letters of Hebrew, which have no forms, so that the order can be spelled out."""
    mirror = str.maketrans("()", ")(")
    depths = levels(text)
    characters = [c.translate(mirror) if depth % 2 else c for c, depth in zip(text, depths, strict=True)]
    assert "".join(visual_order(characters, depths)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "see you at noon in the garden",
        "你好世界这是一个测试你好世界",
        "averylongwordwithoutanyspace",
        "नमस्ते दुनिया यह एक परीक्षा है",
    ],
)
def test_wrapped_lines_fit_and_lose_nothing(text):
    lines = fonts.wrap_text(text, 90, 16)
    assert len(lines) > 1 and "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(fonts.text_width(line, 16) <= 90 for line in lines)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_is_cut_fits_and_ends_in_an_ellipsis(text):
    room = fonts.text_width(text, 16) * 0.7
    cut = fonts.elide(text, 16, room)
    assert cut.endswith("…") and (fonts.text_width(cut, 16) <= room or len(cut) <= 2)
    assert fonts.elide(text, 16, room * 2) == text


def test_long_texts_take_no_longer_than_their_length_asks():
    """What is typed over adb may be of any length and shape."""
    start = time.process_time()
    for text in ("א" + " " * 20_000 + "ש", "אa" * 10_000, "x" * 40_000, "你" * 20_000, " " * 40_000):
        assert fonts.elide(text, 16, 300) and "".join(fonts.wrap_text(text, 300, 16)).split() == text.split()
    assert time.process_time() - start < 10
