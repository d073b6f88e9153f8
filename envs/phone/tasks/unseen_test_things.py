"""Templates that are never trained on, for results: tasks with files, goods, songs, places and settings."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from mobilerl.envs.base import Action
from mobilerl.envs.phone.tasks.base import INFEASIBLE, Admin, Row
from mobilerl.envs.phone.tasks.files import ENDINGS, _OneFile, _path, _tree
from mobilerl.envs.phone.tasks.helpers import edits, long_press, unchanged
from mobilerl.envs.phone.tasks.maps import MODES, ROUTE, SEARCH, _OnePlace
from mobilerl.envs.phone.tasks.music import LISTED, LISTS, PREFS, TRACKS, _Playlist
from mobilerl.envs.phone.tasks.settings import SettingsVolume, _Settings, _step_volume
from mobilerl.envs.phone.tasks.shop import ADDRESSES, CART, ITEMS, ORDERS, _check_out, _InCart, _OneOrder
from mobilerl.envs.phone.tasks.ui import UI
from mobilerl.envs.phone.words import FOLDERS, NOTE_TITLES

OTHER = "other_"
"""Prefix of the parameters of a task's second volume."""


class FilesDeleteTwo(_OneFile):
    split = "test"
    instructions = (
        "[Delete|Remove|Erase] the files {name} and {other} [in|from] {folder}",
        "In {folder} [delete|remove] {name} and {other}",
        "Get rid of the files {name} and {other} in {folder}",
        "In Files delete {name} and {other} from the folder {folder}",
    )
    script = ("{folder}", long_press("{name}"), "Delete", "Delete", long_press("{other}"), "Delete", "Delete")

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        names = [f"{title}.{rng.choice(ENDINGS)}" for title in rng.sample(NOTE_TITLES, 2)]
        return {"folder": rng.choice(FOLDERS), "name": names[0], "other": names[1]}

    def setup(self, phone: Admin) -> None:
        phone.write_file(_path(self.p["folder"], self.p["other"]), bytes(30_000))
        super().setup(phone)

    def done(self, phone: Admin) -> bool:
        asked = (self.p["name"], self.p["other"])
        kept = [name for name in self.before[self.p["folder"]] if name not in asked]
        return _tree(phone) == self.before | {self.p["folder"]: kept}


class ShopCheckOut(_InCart):
    split = "test"
    instructions = (
        "Order [what is|all items|all that is] in [the|my] [cart|shopping cart] and have it delivered to {address}",
        "[Buy|Pay for] what is in [the|my] cart and have it [delivered|sent] to {address}",
        "In Shop [order|buy] what is in the cart, deliver it to {address}",
        "Check out the [|shopping ]cart[ in Shop|] and deliver to {address}",
    )
    script = ("Cart", _check_out)
    steps = 7

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {**super().sample(rng), "address": rng.choice(ADDRESSES)}

    def done(self, phone: Admin) -> bool:
        known = {row["_id"] for row in self.orders}
        new = [row for row in phone.rows(ORDERS) if row["_id"] not in known]
        if len(new) != 1 or new[0]["address"] != self.p["address"] or phone.rows(CART):
            return False
        bought = sorted((r["name"], r["quantity"]) for r in phone.rows(ITEMS) if r["number"] == new[0]["number"])
        return bought == sorted([(self.p["product"], 1), (self.p["other"], 1)])


class ShopReturn(_OneOrder):
    """Shop takes nothing back: the right answer is that it cannot be done."""

    split = "test"
    instructions = (
        "Return order {number}[ in Shop|]",
        "Send order {number} back[ to Shop|]",
        "I [want|need] to return order {number}",
        "In Shop [return|send back] [|all of ]order {number}",
    )
    script = ("Orders", "Order {number}")
    answer = INFEASIBLE


class _FilledPlaylist(_Playlist):
    """The playlist holds the song and then another one."""

    def clear(self, phone: Admin) -> None:
        super().clear(phone)
        phone.insert(LISTS, name=self.p["playlist"])
        for song in (self.p["song"], phone.rows(TRACKS)[0]["title"]):
            phone.insert(LISTED, playlist=self.p["playlist"], song=song)


class MusicPlayPlaylist(_FilledPlaylist):
    split = "test"
    instructions = (
        "[Play|Start] the playlist {playlist}[ in Music|]",
        "Open Music and play [the|my] playlist {playlist}",
        "In Music [play|start] all songs of {playlist}",
        "Play [all|the] songs [of|from|in] the playlist {playlist}",
    )
    script = ("Playlists", "{playlist}", "Play all")

    def done(self, phone: Admin) -> bool:
        return self.plays(phone, self.p["song"]) and phone.rows(PREFS)[0]["queue"] == self.p["playlist"]


class MusicRemoveFromPlaylist(_FilledPlaylist):
    split = "test"
    instructions = (
        "[Remove|Delete|Drop] the song {song} from [the|my] playlist {playlist}",
        "Take {song} [off|out of] the playlist {playlist}",
        "The playlist {playlist} should not have the song {song}[, remove it|]",
        "In Music remove {song} from the playlist {playlist}",
    )
    script = ("Playlists", "{playlist}", long_press("{song}"), "Remove from playlist")

    def done(self, phone: Admin) -> bool:
        out = (self.p["playlist"], self.p["song"])
        kept = [row for row in self.listed if (row["playlist"], row["song"]) != out]
        return [phone.rows(table) for table in (LISTED, LISTS, TRACKS)] == [kept, self.lists, self.before]


class MapsStreet(_OnePlace):
    split = "test"
    instructions = (
        "What is the street and number of [the |]{place}[ in Maps|]?",
        "[Tell me|Look up|Find] the street and number of the {place}",
        "At what street and number is [the |]{place}?",
        "Where is the {place}, tell me the street and number",
    )
    script = (*SEARCH, lambda ui, p: ui.press(p["place"], -1))
    answer = "{street}"
    done = unchanged

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        self.p["street"] = next(row["street"] for row in self.before if row["_id"] == self.row_id)


def _choose_mode(ui: UI, p: Row) -> Iterable[Action]:
    return ui.press("Walk") if p["mode"] == "on foot" else ()


class MapsSaveAndGo(_OnePlace):
    split = "test"
    instructions = (
        "Save the {place} and start [a route|directions] {mode} to it",
        "[Save|Mark] the {place} as a saved place and start [a|the] route {mode} to it",
        "Add the {place} to [the|my] saved places and start a route {mode} to it",
        "In Maps save the {place} and navigate {mode} to it",
        "I want to go {mode} to the {place}, save it and start the route",
    )
    params = {**_OnePlace.params, "mode": sorted(MODES)}
    script = ("{place}", "Save", "Directions", _choose_mode, "Start")

    def done(self, phone: Admin) -> bool:
        [route] = phone.rows(ROUTE)
        started = (route["destination"], route["mode"]) == (self.p["place"], MODES[self.p["mode"]])
        return started and edits(saved=1)(self, phone)


class SettingsTwoLevels(_Settings):
    split = "test"
    instructions = (
        "[Set|Change] the {setting} to {level} and the {other_setting} to {other_level}[ in Settings|]",
        "In [Settings|the settings] set the {setting} to {level} and the {other_setting} to {other_level}",
        "The {setting} should be {level} and the {other_setting} {other_level}[, change that in Settings|]",
        "[Open|Go to] Settings and set the {setting} to {level} and the {other_setting} to {other_level}",
    )
    script = ("Sound", _step_volume, lambda ui, p: _step_volume(ui, _other(p)))
    steps = 9

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        one, other = SettingsVolume.sample(rng), SettingsVolume.sample(rng)
        while other["setting"] == one["setting"]:
            other = SettingsVolume.sample(rng)
        return {**one, **{f"{OTHER}{name}": value for name, value in other.items()}}

    def first(self) -> dict[str, str]:
        return {p["setting"]: str(p["start"]) for p in (self.p, _other(self.p))}

    def target_values(self) -> dict[str, str]:
        return {p["setting"]: str(p["level"]) for p in (self.p, _other(self.p))}


def _other(p: Row) -> Row:
    """The parameters of the second volume."""
    return {name.removeprefix(OTHER): value for name, value in p.items() if name.startswith(OTHER)}
