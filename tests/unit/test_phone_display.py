"""Settings of the display do what they say, wide screens use their width, and gestures open the system's windows."""

from __future__ import annotations

import argparse

import pytest
from phone_screens import node, tap
from PIL import ImageStat

from mobilerl.envs.phone import panels, render
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.console import Console
from mobilerl.envs.phone.keyboard import KEYS, keyboard_top
from mobilerl.envs.phone.phone import HOLD_MS, Phone
from mobilerl.envs.phone.serve import add_arguments, check
from mobilerl.envs.phone.shell.core import Shell
from mobilerl.envs.phone.ui import COLUMN, KEYBOARD, keyboard_height

SETTINGS, TASKS, MUSIC, MAPS = "com.android.settings", "com.android.tasks", "com.android.music", "com.android.maps"


@pytest.fixture
def phone() -> Phone:
    return Phone(APPS)


def texts(phone: Phone) -> list[str]:
    return [n.text for n in phone.tree().window.walk() if n.text]


def test_the_font_size_is_that_of_settings_and_rows_grow_with_it(phone):
    phone.launch(SETTINGS)
    tap(phone, "Display")
    before = [(n.size, n.bounds[3] - n.bounds[1]) for n in phone.tree().root.walk() if n.text]
    tap(phone, "Font size")
    tap(phone, "Largest")
    after = [(n.size, n.bounds[3] - n.bounds[1]) for n in phone.tree().root.walk() if n.text]
    assert [size for size, _ in after] == [round(1.3 * size) for size, _ in before]
    assert all(new[1] > old[1] for old, new in zip(before, after, strict=True))
    phone.settings["system"]["font_scale"] = "huge"
    assert phone.font_scale == 1.0


def test_auto_rotate_follows_the_hand_and_a_locked_screen_does_not(phone):
    Console(phone, exclusive=None)._run("rotate")
    phone.launch(SETTINGS)
    assert (phone.width, phone.height) == (360, 720)
    tap(phone, "Display")
    tap(phone, "Auto-rotate")
    assert (phone.width, phone.height) == (720, 360)
    phone.settings["system"] |= {"accelerometer_rotation": "0", "user_rotation": "3"}
    assert phone.rotation == 3


def turned(phone: Phone) -> None:
    phone.settings["system"]["user_rotation"] = "1"
    phone.invalidate()


def test_a_turned_screen_shows_a_column_or_two(phone):
    turned(phone)
    phone.launch(TASKS)
    left, _, right, _ = phone.tree().root.children[1].children[0].bounds
    assert right - left == COLUMN and left == (720 - COLUMN) / 2
    phone.launch(MUSIC)
    music = phone.foreground
    music.play(music.songs()[0]["title"])
    music.go("player")
    phone.invalidate()
    cover = next(n for n in phone.tree().root.walk() if n.look == "tile")
    assert cover.bounds[2] <= node(phone, music.prefs["song"]).bounds[0], "the cover stands beside the controls"


def test_a_dialog_that_is_too_tall_scrolls_and_its_buttons_stay(phone):
    turned(phone)
    phone.launch(TASKS)
    phone.foreground.go("edit", priority="Normal", due="No day")
    phone.foreground.open_dialog("due")
    phone.invalidate()
    card, cancel = phone.tree().window.bounds, node(phone, "Cancel").bounds
    assert card[3] <= phone.height and cancel[3] <= card[3] and node(phone, "Sunday").bounds[1] > card[3]
    phone.swipe(360, 200, 360, 0)
    phone.swipe(360, 200, 360, 0)
    tap(phone, "Sunday")
    assert phone.foreground.page.args["due"] == "Sunday"


def test_the_low_keyboard_types_what_is_touched(phone):
    turned(phone)
    phone.launch(TASKS)
    phone.foreground.go("edit", focus="title", priority="Normal", due="No day")
    phone.invalidate()
    squeeze = keyboard_height(phone.height) / KEYBOARD
    assert squeeze < 1
    for name in "pa.":
        x1, y1, x2, y2 = next(k.box for k in KEYS if k.name == name)
        phone.tap((x1 + x2) / 2 * 2, keyboard_top(phone.height) + (y1 + y2) / 2 * squeeze)
    assert phone.foreground.page.fields["title"] == "pa."


def test_dark_theme_darkens_the_map_too(phone):
    phone.launch(MAPS)
    phone.settings["secure"]["ui_night_mode"] = "2"
    left, top, right, bottom = node(phone, "Map").bounds
    drawn = render.draw_screen(phone).convert("L").crop((left, top, right, bottom))
    assert ImageStat.Stat(drawn).mean[0] < 80


def test_the_night_mode_is_set_and_told_as_on_android_and_auto_follows_the_clock(phone):
    shell = Shell(phone)

    def night(*words):
        return shell.run(("cmd", "uimode", "night", *words))

    phone.launch(TASKS)
    assert night().stdout == b"Night mode: no\n"
    light = render.draw_screen(phone)
    assert night("yes").stdout == b"Night mode: yes\n" and render.draw_screen(phone) != light
    assert shell.run("settings get secure ui_night_mode").stdout == b"2\n"
    assert night("auto").stdout == b"Night mode: auto\n" and render.draw_screen(phone) == light
    shell.run("date 101523302023")
    assert phone.now.hour == 23 and phone.dark
    shell.run("cmd statusbar expand-settings")
    tap(phone, "Dark theme")
    assert night().stdout == b"Night mode: no\n" and not phone.dark
    refused = night("maybe")
    assert (refused.exit_code, refused.stdout) == (255, b"")
    assert refused.stderr.startswith(b"Error: mode must be 'yes', 'no', or 'auto'")


@pytest.mark.parametrize(
    ("width", "height", "density", "dpi", "dp"),
    [
        (1080, 2400, None, 480, (360, 800)),
        (480, 800, None, 213, (360, 600)),
        (1600, 2560, None, 320, (800, 1280)),
        (2560, 1600, None, 320, (1280, 800)),
        (768, 1024, None, 160, (768, 1024)),
        (1600, 2560, 400, 400, (640, 1024)),
        (1080, 2400, 420, 420, (411, 914)),
        (1080, 2400, 900, 900, (320, 711)),
    ],
)
def test_the_density_is_that_of_such_a_device_or_the_given_one(width, height, density, dpi, dp):
    phone = Phone(APPS, width, height, density)
    shell = Shell(phone)
    phone.reset(0)
    assert shell.run("wm density").stdout == f"Physical density: {dpi}\n".encode() and phone.size_dp == dp
    shell.run("wm density 240")
    assert phone.size_dp != dp
    shell.run("wm density reset")
    assert phone.size_dp == dp


def test_the_density_of_a_served_phone_is_checked():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    check(parser.parse_args(["--density", "320"]))
    with pytest.raises(ValueError, match=r"--density 20: give 72 to 1000 dpi"):
        check(parser.parse_args(["--density", "20"]))


def test_swipes_from_the_edges(phone):
    phone.launch(TASKS)
    phone.swipe(180, 5, 180, 300)
    assert phone.panel.name == panels.SHADE
    phone.swipe(180, 5, 180, 300)
    assert phone.panel.name == panels.QUICK_SETTINGS and "Dark theme" in texts(phone)
    phone.swipe(180, 715, 180, 400)
    assert phone.panel is None and phone.current == TASKS
    phone.swipe(180, 715, 180, 400, ms=HOLD_MS)
    assert phone.panel.name == panels.RECENTS and "Tasks" in texts(phone)
    tap(phone, "Tasks")
    assert phone.panel is None and phone.current == TASKS
    phone.swipe(180, 715, 180, 400)
    assert phone.current == phone.launcher.package


def test_posted_notifications_appear_and_go_when_touched(phone):
    shell = Shell(phone)
    assert shell.run("cmd notification post -t 'Sale today' shop 'Мёд — 50 %'").exit_code == 0
    assert shell.run("cmd notification post shop").exit_code == 255
    phone.swipe(180, 5, 180, 300)
    assert {"Sale today", "Мёд — 50 %"} <= set(texts(phone))
    tap(phone, "Sale today")
    assert "No notifications" in texts(phone)


def test_messages_prices_and_months_say_what_they_are(phone):
    messages = phone.app("Messages")
    messages.insert("messages", address="Ann", body="now")
    messages.insert("messages", address="Bob", body="never", date="soon")
    phone.launch(messages.package)
    assert texts(phone).count("15:34") == 1 and "14 Oct" in texts(phone)
    phone.launch("com.android.vending")
    phone.foreground.go("category", category="Books")
    phone.invalidate()
    assert any(text.startswith("$") for text in texts(phone))
    phone.launch("com.android.calendar")
    tap(phone, "Month")
    assert texts(phone)[2:10] == [*"SMTWTFS", "1"]
