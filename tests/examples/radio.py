"""An app and a task of your own, as CONTRIBUTING.md and docs/guides/app-and-tasks.md describe them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from envs.base import Action
from envs.phone.app import App, Page
from envs.phone.tasks.base import Admin, Hand, Template
from envs.phone.ui import Screen
from envs.phone.widgets import item, label

STATIONS = ("Harbour FM", "Radio North", "City Jazz", "News 24", "Valley Folk", "Night Waves", "Campus One")


class Radio(App):
    """Stations to listen to; the one that plays is a preference."""

    package = "com.example.radio"
    label = "Radio"
    authority = "radio"
    icon = "music"
    color = "#5E35B1"
    tables = {"stations": {"name": ""}}
    default_prefs = {"playing": ""}

    def populate(self, rng: random.Random) -> None:
        for name in rng.sample(STATIONS, len(STATIONS)):
            self.insert("stations", name=name)

    def page_main(self, page: Page) -> Screen:
        head = label(f"Playing {self.prefs['playing']}" if self.prefs["playing"] else "Nothing is playing")
        rows = [item(s["name"], icon="music", on_tap=lambda s=s: self._play(s["name"])) for s in self.db["stations"]]
        return Screen("Radio", [head, *rows])

    def _play(self, name: str) -> None:
        self.prefs["playing"] = name


class RadioPlay(Template):
    app = "Radio"
    instructions = ("Play {station} on the radio", "Open Radio and listen to {station}")
    steps = 5

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"station": rng.choice(STATIONS)}

    def setup(self, phone: Admin) -> None:
        self.stations = phone.rows("radio/stations")

    def check(self, phone: Admin, answer: str) -> bool:
        """The station plays, and the list is as it was."""
        (prefs,) = phone.rows("radio/prefs")
        return prefs["playing"] == self.p["station"] and phone.rows("radio/stations") == self.stations

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Radio")
        yield from ui.reach(self.p["station"])
        yield ui.tap(self.p["station"])
        yield ui.finish()
