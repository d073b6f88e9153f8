"""Maps: places nearby, saved places, search, and directions by car or on foot."""

from __future__ import annotations

import random
from functools import partial

from mobilerl.envs.phone.app import App, Page, Row
from mobilerl.envs.phone.panes import ListDetail
from mobilerl.envs.phone.ui import IMAGE, Node, Screen
from mobilerl.envs.phone.widgets import flip, icon_button, item, label, radio_item, wide_button
from mobilerl.envs.phone.words import PLACE_AREAS, PLACE_KINDS, STREETS

TABS = ("Explore", "Saved")
MODES = {"Car": 1.5, "Walk": 12.0}
"""Minutes per kilometre."""
NEARBY = 6
"""How many places the first page lists; the others are found by searching."""


def minutes(metres: int, mode: str) -> int:
    return max(1, round(metres / 1000 * MODES[mode]))


class Maps(App):
    package = "com.android.maps"
    label = "Maps"
    authority = "maps"
    icon = "map"
    color = "#1E88E5"
    tables = {"places": {"name": "", "street": "", "metres": 0, "saved": 0}}
    default_prefs = {"destination": "", "mode": ""}
    """The route that is being followed, "" when none is."""
    list_detail = ListDetail(("main", "search"), ("place", "directions"), "Select a place")

    def populate(self, rng: random.Random) -> None:
        distances = rng.sample(range(200, 8000, 100), len(PLACE_KINDS))
        for kind, metres in zip(PLACE_KINDS, distances, strict=True):
            street = f"{rng.choice(STREETS)} {rng.randint(1, 60)}"
            self.insert("places", name=f"{rng.choice(PLACE_AREAS)} {kind}", street=street, metres=metres)
        for place in rng.sample(self.db["places"], 3):
            place["saved"] = 1

    def _kilometres(self, metres: int) -> str:
        return self.t("{distance} km", distance=self.phone.language.number(f"{metres / 1000:.1f}"))

    def nearest(self) -> list[Row]:
        return sorted(self.db["places"], key=lambda r: (r["metres"], r["name"]))

    def page_main(self, page: Page) -> Screen:
        shown: str = page.args.get("tab", "Explore")
        if shown == "Explore":
            body = [*self._route(), self._image(110), *(self._row(r) for r in self.nearest()[:NEARBY])]
        else:
            body = [self._saved_row(r) for r in self.nearest() if r["saved"]] or [label(self.t("No saved places yet"))]
        bottom = self.tab_bar(TABS, shown, ("map", "star"))
        return Screen(self.t(self.label), body, [self.search_button()], bottom=bottom)

    def _route(self) -> list[Node]:
        """The route that is being followed, with a button to end it."""
        if not self.prefs["destination"]:
            return []
        stop = icon_button("close", self.t("End route"), lambda: self.prefs.update(destination="", mode=""))
        title = self.t("To {name}", name=self.prefs["destination"])
        return [item(title, self.t(self.prefs["mode"]), icon="directions", trailing=[stop], selected=True)]

    def _row(self, place: Row, *trailing: Node) -> Node:
        return item(
            place["name"],
            self._kilometres(place["metres"]),
            icon="place",
            trailing=trailing,
            on_tap=lambda: self.go("place", id=place["_id"]),
            selected=self.shown_beside(id=place["_id"]),
        )

    def _saved_row(self, place: Row) -> Node:
        name = self.t("Remove {name}", name=place["name"])
        return self._row(place, icon_button("trash", name, lambda: place.update(saved=0)))

    def page_search(self, page: Page) -> Screen:
        def text(place: Row) -> str:
            return f"{place['name']} {place['street']}"

        return self.search_screen(page, self.t("Search places"), self.nearest(), text, self._row)

    def page_place(self, page: Page) -> Screen:
        place = self.get("places", page.args["id"])
        if place is None:
            return self.missing(self.t("Place"), self.t("This place is gone"))
        icon, name = ("star_filled", "Remove") if place["saved"] else ("star", "Save")
        star = icon_button(icon, self.t(name), flip(place, "saved"))
        go = wide_button(self.t("Directions"), lambda: self.go("directions", id=place["_id"], mode="Car"))
        body = [self._image(150), item(place["street"], self._kilometres(place["metres"]), icon="place"), go]
        return Screen(place["name"], body, [star], on_up=self.up, lead=1)

    def page_directions(self, page: Page) -> Screen:
        place, mode = self.get("places", page.args["id"]), page.args["mode"]
        if place is None:
            return self.missing(self.t("Directions"), self.t("This place is gone"))
        modes = [radio_item(self.t(m), m == mode, partial(page.args.update, mode=m)) for m in MODES]
        body = [
            item(place["name"], self.t("From here"), icon="directions"),
            *modes,
            label(self.t("{minutes} min", minutes=minutes(place["metres"], mode)), size=22, bold=True),
            label(self._kilometres(place["metres"])),
            wide_button(self.t("Start"), lambda: self._start(place, mode)),
        ]
        return Screen(self.t("Directions"), body, on_up=self.up)

    def _start(self, place: Row, mode: str) -> None:
        self.prefs.update(destination=place["name"], mode=mode)
        self.stack = [Page("main")]
        self.toast(self.t("Route started"))

    def _image(self, height: int) -> Node:
        """The drawn map: decoration, it takes no touches."""
        return Node(cls=IMAGE, desc=self.t("Map"), look="tile", icon="map", color="#A5D6A7", height=height)
