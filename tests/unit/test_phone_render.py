"""The picture: valid PNG, the same for the same screen, and different whenever something visible differs."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from envs.phone import render
from envs.phone.apps.catalogue import APPS
from envs.phone.canvas import elided, printable, text_width
from envs.phone.icon_shapes import ALIASES, SHAPES
from envs.phone.icons import icon_mask, known
from envs.phone.phone import Phone
from envs.phone.theme import accent, brightness

NOTES = "com.android.notes"


@pytest.fixture
def phone() -> Phone:
    return Phone(APPS)


def image(phone: Phone) -> Image.Image:
    return Image.open(io.BytesIO(render.png(phone)))


@pytest.mark.parametrize("size", [(360, 720), (270, 540), (1080, 2400)])
def test_png_has_the_size_of_the_phone(size):
    picture = image(Phone(APPS, *size))
    assert picture.size == size and picture.mode == "RGB"


def test_png_is_the_drawn_picture(phone):
    assert image(phone).tobytes() == render.picture(phone).tobytes()


def test_same_screen_same_bytes_without_the_cache(phone):
    first = render.png(phone)
    render.clear_cache()
    again = Phone(APPS)
    assert render.png(again) == first


@pytest.mark.parametrize("app", [a.package for a in APPS])
def test_every_app_can_be_drawn_in_both_themes(phone, app):
    phone.launch(app)
    light = render.png(phone)
    phone.settings["secure"]["ui_night_mode"] = "2"
    dark = render.png(phone)
    assert (light == dark) == (phone.foreground is phone.launcher)


def test_what_changes_on_the_screen_changes_the_picture(phone):
    phone.launch(NOTES)
    seen = {render.png(phone)}
    changes = (
        lambda: phone.foreground.toast("Saved"),
        lambda: phone.foreground.go("edit", focus="title"),
        lambda: phone.text("a"),
        lambda: phone.text("b"),
        lambda: phone.back(),
        lambda: phone.settings["global"].update(airplane_mode_on="1"),
        lambda: phone.set_time(phone.now.replace(hour=3)),
    )
    for change in changes:
        change()
        phone.changed()
        seen.add(render.png(phone))
    assert len(seen) == len(changes) + 1


def test_a_dialog_darkens_what_is_below(phone):
    phone.launch(NOTES)
    before = render.picture(phone).getpixel((350, 60))
    phone.foreground.go("view", id=1)
    phone.foreground.open_dialog("delete")
    phone.changed()
    after = render.picture(phone).getpixel((350, 60))
    assert sum(after) < 0.7 * sum(before)


def test_the_keyboard_covers_the_lower_part(phone):
    phone.launch(NOTES)
    phone.foreground.go("edit", focus="title")
    phone.changed()
    assert render.picture(phone).getpixel((2, 500)) == (226, 229, 234)


@pytest.mark.parametrize("name", [*SHAPES, *ALIASES])
def test_every_icon_has_ink_and_is_no_block(name):
    mask = icon_mask(name, 48)
    covered = sum(mask.histogram()[128:]) / 48**2
    assert known(name) and 0.03 < covered < 0.75


def test_app_icons_are_known():
    assert [a.icon for a in APPS if not known(a.icon)] == []


def test_text_is_cut_to_its_room():
    assert elided("short", 16, 200) == "short"
    cut = elided("a very long title that does not fit", 16, 100)
    assert cut.endswith("…") and text_width(cut, 16) <= 100


def test_text_the_font_lacks_is_still_drawn():
    assert printable("Café – 5×3") == "Cafe - 5x3" and printable("漢") == "?"


@pytest.mark.parametrize("color", ["#FFFFFF", "#F2B600", "#000000", "", "no colour"])
def test_white_text_can_be_read_on_an_accent(color):
    assert brightness(accent(color, dark=False)) <= 0.52
