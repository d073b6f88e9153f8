"""Example of a custom app and task; see CONTRIBUTING.md and docs/instructions.md."""

from __future__ import annotations

import random

from mobilerl.envs.phone.app import App, Page
from mobilerl.envs.phone.tasks.base import Admin, Template
from mobilerl.envs.phone.tasks.helpers import reach
from mobilerl.envs.phone.ui import Screen
from mobilerl.envs.phone.widgets import item, label

STATIONS = ("Harbour FM", "Radio North", "City Jazz", "News 24", "Valley Folk", "Night Waves", "Campus One")


class Radio(App):
    """A list of stations; the one playing is a preference."""

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
    instructions = (
        "[Play|Start] {station} on the radio",
        "Open Radio and [play|listen to] {station}",
        "In Radio play {station}",
    )
    params = {"station": STATIONS}
    script = (reach("{station}"), "{station}")
    steps = 5

    def setup(self, phone: Admin) -> None:
        self.stations = phone.rows("radio/stations")

    def done(self, phone: Admin) -> bool:
        """The station is playing, and the list is unchanged."""
        (prefs,) = phone.rows("radio/prefs")
        return prefs["playing"] == self.p["station"] and phone.rows("radio/stations") == self.stations
