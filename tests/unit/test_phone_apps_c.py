"""Files, Shop, Music and Maps: what they do beyond what every task's expert shows."""

from __future__ import annotations

import pytest

from envs.base import Task
from envs.phone.app import App
from envs.phone.apps.catalogue import APPS
from envs.phone.apps.files import Files, size_text
from envs.phone.apps.maps import Maps, kilometres, minutes
from envs.phone.apps.music import Music
from envs.phone.apps.shop import Shop, money
from envs.phone.phone import Phone
from envs.phone.tasks.base import Admin, Template
from envs.phone.tasks.catalogue import TEMPLATES
from envs.phone.tasks.suite import make_task
from envs.phone.transport import InProcessTransport
from envs.phone.ui import Node


class Finger:
    """Touches a phone's widgets by what they say, within one app."""

    def __init__(self, app: type[App]) -> None:
        self.phone = Phone(APPS)
        self.phone.launch(app.package)
        self.app = self.phone.apps[app.package]

    def nodes(self) -> list[Node]:
        return [n for n in self.phone.tree().window.walk() if n.text or n.desc]

    def reads(self) -> list[str]:
        return [n.text or n.desc for n in self.nodes()]

    def tap(self, *names: str, long: bool = False) -> None:
        for name in names:
            left, top, right, bottom = [n for n in self.nodes() if name in (n.text, n.desc)][-1].bounds
            touch = self.phone.long_press if long else self.phone.tap
            touch((left + right) / 2, (top + bottom) / 2)

    def rewrite(self, text: str) -> None:
        self.phone.clear_text()
        self.phone.text(text)


def prepared(name: str, seed: int = 0) -> tuple[Phone, Admin, Template, Task]:
    """A phone in the first state of a task."""
    task = make_task(name, seed)
    phone = Phone(APPS)
    phone.reset(seed)
    admin = Admin(InProcessTransport(phone, "sim-0"))
    template = TEMPLATES[name](task.params)
    template.setup(admin)
    return phone, admin, template, task


# --- Files -------------------------------------------------------------------------------------------------------


@pytest.fixture
def files() -> Finger:
    finger = Finger(Files)
    finger.phone.files = {
        "/sdcard/Documents/Plans.txt": b"feed the cat",
        "/sdcard/Documents/Work/Budget.txt": bytes(2000),
        "/sdcard/Pictures/Garden.jpg": bytes(45_678),
    }
    finger.phone.changed()
    return finger


def test_files_shows_folders_before_files_with_sizes(files):
    assert files.reads()[3:7] == ["Documents", "2 items", "Pictures", "1 item"]
    files.tap("Documents")
    assert files.reads()[4:8] == ["Work", "1 item", "Plans.txt", "12 B"]
    assert size_text(45_678) == "45 kB"


def test_renaming_a_folder_takes_its_files_along(files):
    files.tap("Documents")
    files.tap("Work", long=True)
    files.tap("Rename")
    files.rewrite("School")
    files.phone.enter()
    assert files.phone.files["/sdcard/Documents/School/Budget.txt"] == bytes(2000)
    assert not any("/Work" in path for path in files.phone.files)


def test_a_taken_or_hidden_name_is_refused(files):
    before = dict(files.phone.files)
    files.tap("Documents", "New folder")
    for name in ("Work", "Plans.txt", "a/b", ".x", " "):
        files.rewrite(name)
        files.tap("Create")
        assert files.phone.files == before


def test_a_folder_stays_when_its_last_file_leaves_it(files):
    files.tap("Pictures", "Garden.jpg", "More", "Move", "Work")
    assert "/sdcard/Documents/Work/Garden.jpg" in files.phone.files
    assert files.app.folders("/sdcard") == ["/sdcard/Documents", "/sdcard/Pictures"]
    assert files.reads()[1] == "Pictures", "the page of the moved file is left"


def test_a_folder_cannot_be_moved_into_itself(files):
    files.tap("Documents")
    files.tap("Work", long=True)
    files.tap("Move")
    assert "Pictures" in files.reads() and "Work" not in files.reads()


def test_leaving_a_name_dialog_takes_the_keyboard_down(files):
    files.tap("New folder")
    assert files.phone.tree().keyboard
    files.phone.back()
    assert files.phone.tree().dialog is None and not files.phone.tree().keyboard
    files.tap("Documents")


# --- Shop --------------------------------------------------------------------------------------------------------


@pytest.fixture
def shop() -> Finger:
    finger = Finger(Shop)
    for product in finger.app.db["products"]:
        product["price"] = 1250
    return finger


def test_money_keeps_both_digits():
    assert [money(c) for c in (1250, 1205, 90)] == ["12.50", "12.05", "0.90"]


def test_cart_adds_up_and_drops_what_is_reduced_to_nothing(shop):
    shop.tap("Kitchen", "Kettle", "More", "Add to cart", "Add to cart", "Cart")
    assert "4 x 12.50" in shop.reads() and "Total 50.00" in shop.reads()
    for _ in range(4):
        shop.tap("Less Kettle")
    assert shop.app.db["cart"] == [] and "Your cart is empty" in shop.reads()


def test_an_order_keeps_its_total_when_prices_change(shop):
    shop.app.insert("cart", name="Tent", quantity=2)
    shop.tap("Cart", "Check out", "Work", "Place order", "Confirm")
    shop.app.product("Tent")["price"] = 1
    shop.phone.changed()
    assert "Total 25.00" in shop.reads() and "Work" in shop.reads()
    assert shop.app.db["cart"] == []
    shop.phone.back()
    assert "Order 13" in shop.reads()


def test_cancelling_an_order_keeps_the_cart(shop):
    shop.app.insert("cart", name="Tent", quantity=2)
    shop.tap("Cart", "Check out", "Place order", "Cancel")
    assert len(shop.app.db["cart"]) == 1 and len(shop.app.db["orders"]) == 2


def test_a_product_that_vanished_breaks_no_screen(shop):
    shop.app.insert("cart", name="Unicorn", quantity=1)
    shop.tap("Cart")
    assert "Total 0.00" in shop.reads()


# --- Music -------------------------------------------------------------------------------------------------------


@pytest.fixture
def music() -> Finger:
    finger = Finger(Music)
    finger.app.clear()
    finger.app.start()
    for title in ("Blue River", "City Lights", "Night Train"):
        finger.app.insert("songs", title=title, artist="Anna Park")
    finger.app.insert("playlists", name="Party")
    for title in ("Night Train", "Blue River"):
        finger.app.insert("playlist_songs", playlist="Party", song=title)
    finger.phone.changed()
    return finger


def test_next_and_previous_go_round_the_queue(music):
    music.tap("Night Train", "Next")
    assert music.app.prefs["song"] == "Blue River"
    music.tap("Previous", "Previous")
    assert music.app.prefs["song"] == "City Lights"


def test_a_playlist_is_a_queue_of_its_own(music):
    music.tap("Playlists", "Party", "Play all")
    assert (music.app.prefs["song"], music.app.prefs["queue"]) == ("Night Train", "Party")
    music.tap("Next", "Next")
    assert music.app.prefs["song"] == "Night Train", "City Lights is not in the playlist"


def test_shuffle_still_plays_every_song(music):
    music.tap("Night Train", "Shuffle on")
    heard = set()
    for _ in range(3):
        music.tap("Next")
        heard.add(music.app.prefs["song"])
    assert len(heard) == 3 and music.app.prefs["shuffle"] == 1


def test_the_same_song_or_playlist_is_not_added_twice(music):
    music.tap("City Lights", long=True)
    music.tap("Add to playlist", "Party")
    music.tap("City Lights", long=True)
    music.tap("Add to playlist", "Party")
    assert [r["song"] for r in music.app.db["playlist_songs"]] == ["Night Train", "Blue River", "City Lights"]
    music.tap("Playlists", "New playlist")
    music.rewrite("Party")
    music.phone.enter()
    assert len(music.app.db["playlists"]) == 1


def test_deleting_a_playlist_keeps_its_songs(music):
    music.tap("Playlists", "Party", "Delete", "Delete")
    assert music.app.db["playlists"] == music.app.db["playlist_songs"] == []
    assert len(music.app.db["songs"]) == 3


# --- Maps --------------------------------------------------------------------------------------------------------


def test_distances_and_times():
    # 2.4 km: 1.5 min/km by car = 3.6, 12 min/km on foot = 28.8; never less than a minute
    assert kilometres(2400) == "2.4 km"
    assert (minutes(2400, "Car"), minutes(2400, "Walk"), minutes(200, "Car")) == ("4 min", "29 min", "1 min")


def test_a_route_runs_until_it_is_ended():
    finger = Finger(Maps)
    place = finger.app.nearest()[0]["name"]
    finger.tap(place, "Directions", "Walk", "Start")
    assert finger.app.prefs == {"destination": place, "mode": "Walk"}
    assert f"To {place}" in finger.reads()
    finger.tap("End route")
    assert finger.app.prefs == {"destination": "", "mode": ""}


# --- tasks -------------------------------------------------------------------------------------------------------


def test_deleting_another_file_too_is_no_success():
    phone, admin, task, _ = prepared("FilesDelete")
    target = f"/sdcard/{task.p['folder']}/{task.p['name']}"
    other = next(p for p in phone.files if p != target and not p.endswith("/"))
    del phone.files[target]
    assert task.check(admin, "")
    del phone.files[other]
    assert not task.check(admin, "")


def test_buying_more_than_was_asked_for_is_no_success():
    phone, admin, task, _ = prepared("ShopBuy")
    shop = phone.app("Shop")
    shop._order(13, [(task.p["product"], 1)], task.p["address"])
    assert task.check(admin, "")
    shop.insert("order_items", number=13, name=task.p["product"], quantity=1)
    assert not task.check(admin, "")


def test_claiming_infeasible_after_buying_is_no_success():
    phone, admin, task, _ = prepared("ShopBuySoldOut")
    assert task.check(admin, "Infeasible.")
    phone.app("Shop")._order(13, [("Tent", 1)], "Home")
    assert not task.check(admin, "Infeasible.")


def test_a_favourite_place_next_to_the_right_one_is_no_success():
    phone, admin, task, _ = prepared("MapsSave")
    maps = phone.app("Maps")
    next(r for r in maps.db["places"] if r["name"] == task.p["place"])["saved"] = 1
    assert task.check(admin, "")
    next(r for r in maps.db["places"] if not r["saved"])["saved"] = 1
    assert not task.check(admin, "")


def test_a_note_written_over_another_one_was_not_created():
    phone, admin, task, _ = prepared("NotesCreate")
    notes, wanted = phone.app("Notes"), {"title": task.p["title"], "body": task.p["body"]}
    old = dict(notes.db["notes"][0])
    notes.db["notes"][0].update(wanted)
    assert not task.check(admin, "")
    notes.db["notes"][0].update(old)
    notes.insert("notes", **wanted)
    assert task.check(admin, "")
    notes.remove("notes", old["_id"])
    assert not task.check(admin, "")


@pytest.mark.parametrize("spoilt", [{"body": "gone"}, {"title": "Other"}])
def test_pinning_a_note_and_spoiling_it_is_no_success(spoilt):
    phone, admin, task, _ = prepared("NotesPin")
    notes = phone.app("Notes").db["notes"]
    next(row for row in notes if row["title"] == task.p["title"])["pinned"] = 1
    assert task.check(admin, "")
    next(row for row in notes if row["title"] == task.p["title"]).update(spoilt)
    assert not task.check(admin, "")
