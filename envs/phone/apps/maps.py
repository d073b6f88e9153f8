"""Maps: places nearby, saved places, search, and directions by car or on foot."""

from __future__ import annotations

import random

from envs.phone.app import App, Page, Row
from envs.phone.ui import Handler, Node, Screen
from envs.phone.widgets import button, field, icon_button, item, label, radio_item, tabs
from envs.phone.words import PLACE_AREAS, PLACE_KINDS, STREETS

TABS = ("Explore", "Saved")
MODES = {"Car": 1.5, "Walk": 12.0}
"""Minutes per kilometre."""
NEARBY = 6
"""How many places the first page lists; the others are found by searching."""


def kilometres(metres: int) -> str:
    return f"{metres / 1000:.1f} km"


def minutes(metres: int, mode: str) -> str:
    return f"{max(1, round(metres / 1000 * MODES[mode]))} min"


class Maps(App):
    package = "com.android.maps"
    label = "Maps"
    authority = "maps"
    icon = "map"
    color = "#1E88E5"
    tables = {"places": {"name": "", "street": "", "metres": 0, "saved": 0}}
    default_prefs = {"destination": "", "mode": ""}
    """The route that is being followed, "" when none is."""

    def populate(self, rng: random.Random) -> None:
        distances = rng.sample(range(200, 8000, 100), len(PLACE_KINDS))
        for kind, metres in zip(PLACE_KINDS, distances, strict=True):
            street = f"{rng.choice(STREETS)} {rng.randint(1, 60)}"
            self.insert("places", name=f"{rng.choice(PLACE_AREAS)} {kind}", street=street, metres=metres)
        for place in rng.sample(self.db["places"], 3):
            place["saved"] = 1

    def nearest(self) -> list[Row]:
        return sorted(self.db["places"], key=lambda r: (r["metres"], r["name"]))

    # --- pages -----------------------------------------------------------------------------------------------

    def page_main(self, page: Page) -> Screen:
        shown: str = page.args.get("tab", "Explore")

        def show(tab: str) -> Handler:
            return lambda: self.replace("main", tab=tab)

        if shown == "Explore":
            body = [*self._route(), _picture(110), *(self._row(r) for r in self.nearest()[:NEARBY])]
        else:
            body = [self._saved_row(r) for r in self.nearest() if r["saved"]] or [label("No saved places yet")]
        actions = [icon_button("search", "Search", lambda: self.go("search", focus="query"))]
        bottom = tabs(TABS, shown, {t: show(t) for t in TABS}, ("map", "star"))
        return Screen(self.label, body, actions, bottom=bottom)

    def _route(self) -> list[Node]:
        """The route that is being followed, with a button to end it."""
        if not self.prefs["destination"]:
            return []
        stop = icon_button("close", "End route", lambda: self.prefs.update(destination="", mode=""))
        return [item(f"To {self.prefs['destination']}", self.prefs["mode"], icon="directions", trailing=[stop],
                     selected=True)]  # fmt: skip

    def _row(self, place: Row, *trailing: Node) -> Node:
        return item(place["name"], kilometres(place["metres"]), icon="place", trailing=trailing,
                    on_tap=lambda: self.go("place", id=place["_id"]))  # fmt: skip

    def _saved_row(self, place: Row) -> Node:
        return self._row(place, icon_button("trash", f"Remove {place['name']}", lambda: place.update(saved=0)))

    def page_search(self, page: Page) -> Screen:
        query = page.fields.get("query", "").casefold().strip()
        hits = [r for r in self.nearest() if query and query in f"{r['name']} {r['street']}".casefold()]
        return Screen("Search", [field("query", "Search places"), *(self._row(r) for r in hits)], on_up=self.up)

    def page_place(self, page: Page) -> Screen:
        place = self.get("places", page.args["id"])
        if place is None:
            return Screen("Place", [label("This place is gone")], on_up=self.up)
        saved = place["saved"]
        star = icon_button("star_filled" if saved else "star", "Remove" if saved else "Save",
                           lambda: place.update(saved=1 - saved))  # fmt: skip
        go = button("Directions", lambda: self.go("directions", id=place["_id"], mode="Car"))
        body = [
            _picture(150),
            item(place["street"], kilometres(place["metres"]), icon="place"),
            Node(pad=(16, 8), children=[go]),
        ]
        return Screen(place["name"], body, [star], on_up=self.up)

    def page_directions(self, page: Page) -> Screen:
        place, mode = self.get("places", page.args["id"]), page.args["mode"]
        if place is None:
            return Screen("Directions", [label("This place is gone")], on_up=self.up)

        def choose(name: str) -> Handler:
            return lambda: page.args.update(mode=name)

        modes = [radio_item(m, m == mode, choose(m)) for m in MODES]
        body = [
            item(place["name"], "From here", icon="directions"),
            *modes,
            label(minutes(place["metres"], mode), size=22, bold=True),
            label(kilometres(place["metres"])),
            Node(pad=(16, 8), children=[button("Start", lambda: self._start(place, mode))]),
        ]
        return Screen("Directions", body, on_up=self.up)

    # --- changes ---------------------------------------------------------------------------------------------

    def _start(self, place: Row, mode: str) -> None:
        self.prefs.update(destination=place["name"], mode=mode)
        self.stack = [Page("main")]
        self.toast("Route started")


def _picture(height: int) -> Node:
    """The drawn map: decoration, it takes no touches."""
    return Node(cls="android.widget.ImageView", desc="Map", look="tile", icon="map", color="#A5D6A7", height=height)
