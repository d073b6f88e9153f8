"""Settings of the display do what they say, wide screens use their width, and gestures open the system's windows."""

from __future__ import annotations

import pytest
from phone_screens import node, tap
from PIL import ImageStat

from envs.phone import panels, render
from envs.phone.apps.catalogue import APPS
from envs.phone.console import Console
from envs.phone.keyboard import KEYS, keyboard_top
from envs.phone.phone import HOLD_MS, Phone
from envs.phone.shell.core import Shell
from envs.phone.ui import COLUMN, KEYBOARD, keyboard_height

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
    phone.changed()


def test_a_turned_screen_shows_a_column_or_two(phone):
    turned(phone)
    phone.launch(TASKS)
    left, _, right, _ = phone.tree().root.children[1].children[0].bounds
    assert right - left == COLUMN and left == (720 - COLUMN) / 2
    phone.launch(MUSIC)
    music = phone.foreground
    music.play(music.songs()[0]["title"])
    music.go("player")
    phone.changed()
    cover = next(n for n in phone.tree().root.walk() if n.look == "tile")
    assert cover.bounds[2] <= node(phone, music.prefs["song"]).bounds[0], "the cover stands beside the controls"


def test_a_dialog_that_is_too_tall_scrolls_and_its_buttons_stay(phone):
    turned(phone)
    phone.launch(TASKS)
    phone.foreground.go("edit", priority="Normal", due="No day")
    phone.foreground.open_dialog("due")
    phone.changed()
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
    phone.changed()
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
    drawn = render.picture(phone).convert("L").crop((left, top, right, bottom))
    assert ImageStat.Stat(drawn).mean[0] < 80


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
    phone.changed()
    assert any(text.startswith("$") for text in texts(phone))
    phone.launch("com.android.calendar")
    tap(phone, "Month")
    assert texts(phone)[2:10] == [*"SMTWTFS", "1"]
