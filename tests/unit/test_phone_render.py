"""The image: valid PNG, the same for the same screen, and different whenever something visible differs."""

from __future__ import annotations

import pytest

from mobilerl.envs.phone import render
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.phone import Phone

NOTES = "com.android.notes"


@pytest.fixture
def phone() -> Phone:
    return Phone(APPS)


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


def test_what_changes_on_the_screen_changes_the_image(phone):
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
        phone.invalidate()
        seen.add(render.png(phone))
    assert len(seen) == len(changes) + 1
