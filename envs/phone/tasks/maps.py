"""Tasks of the Maps app."""

from __future__ import annotations

from collections.abc import Iterator

from mobilerl.envs.base import Action, Launch
from mobilerl.envs.phone.apps import maps
from mobilerl.envs.phone.tasks.base import INFEASIBLE, Admin, Row, RowTemplate, Type, same_answer
from mobilerl.envs.phone.tasks.helpers import edits, find_added, tap_field
from mobilerl.envs.phone.tasks.notes import NOTES
from mobilerl.envs.phone.tasks.ui import UI
from mobilerl.envs.phone.words import NOTE_TITLES, PLACE_AREAS, PLACE_KINDS

ROUTE = "maps/prefs"
MODES = {"by car": "Car", "on foot": "Walk"}
"""What the instruction says -> what the app says."""
FAR = range(6, len(PLACE_KINDS))
"""Ranks of places that are only found by searching: the first page shows the six nearest."""
SEARCH = ("Search", Type("{place}"))


def _start_route(ui: UI, p: Row) -> Iterator[Action]:
    yield from ui.press(p["place"], -1)  # below the search field, which reads the same
    yield from ui.press("Directions")
    if p["mode"] == "on foot":
        yield from ui.press("Walk")
    yield from ui.press("Start")


class _OnePlace(RowTemplate):
    """A place of the given name and rank (by distance) exists; `distance` is what the app shows."""

    app = "Maps"
    table = "maps/places"
    saved = 0
    params = {"place": lambda rng: f"{rng.choice(PLACE_AREAS)} {rng.choice(PLACE_KINDS)}", "rank": range(6)}

    def setup(self, phone: Admin) -> None:
        kind = self.p["place"].split()[-1]
        rows = sorted(phone.rows(self.table), key=lambda r: r["metres"])
        old = next(r for r in rows if r["name"].endswith(kind))
        swapped = rows[self.p["rank"]]
        phone.update(self.table, swapped["_id"], metres=old["metres"])
        phone.update(self.table, old["_id"], name=self.p["place"], metres=swapped["metres"], saved=self.saved)
        self.row_id, self.metres = old["_id"], swapped["metres"]
        self.p["distance"] = f"{self.metres / 1000:.1f} km"
        self.before = phone.rows(self.table)


class MapsSave(_OnePlace):
    instructions = (
        "Save [the place |]{place} in Maps",
        "Add [the place |]{place} to [the|my] saved places",
        "[Mark|Keep] {place} as a saved place[ in Maps|]",
        "In Maps save {place}",
    )
    script = ("{place}", "Save")
    done = edits(saved=1)


class MapsUnsave(_OnePlace):
    demo = False
    saved = 1
    instructions = (
        "[Remove|Delete] [|the place ]{place} from [the|my] saved places",
        "Do not keep {place} as a saved place[ in Maps|]",
        "Take {place} off [the|my] saved places",
    )
    script = ("Saved", "Remove {place}")
    done = edits(saved=0)


class MapsDistance(_OnePlace):
    params = {**_OnePlace.params, "rank": FAR}
    instructions = (
        "How far [away |]is the {place}?",
        "What is the distance to the {place}?",
        "[Tell me|Look up|Find] the distance to the {place}[ in Maps|]",
        "How [far|many km] is it to the {place}?",
    )
    script = SEARCH
    answer = "{distance}"


class MapsWalkTime(_OnePlace):
    instructions = (
        "How [long|many minutes] is the walk to [the |]{place}?",
        "How long do I [need to |]walk to the {place}?",
        "How many minutes do I [need to |]walk to the {place}?",
        "[Tell me|Look up] how long the walk to the {place} is",
        "On foot, how many minutes is it to the {place}?",
    )
    script = ("{place}", "Directions", "Walk")
    answer = "{minutes} min"

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        self.p["minutes"] = max(1, round(self.metres / 1000 * maps.MODES["Walk"]))

    def check(self, phone: Admin, answer: str) -> bool:
        return super().check(phone, answer) or same_answer(answer, self.p["minutes"])


class MapsNavigate(_OnePlace):
    params = {**_OnePlace.params, "rank": FAR, "mode": sorted(MODES)}
    instructions = (
        "Start [a route|the route|directions] {mode} to the {place}",
        "Navigate {mode} to the {place}[ with Maps|]",
        "I want to [go|get] {mode} to the {place}, start [the|a] route",
        "In Maps start [a route|directions] to the {place} {mode}",
    )
    script = (*SEARCH, _start_route)
    steps = 8

    def done(self, phone: Admin) -> bool:
        route = phone.rows(ROUTE)[0]
        return (route["destination"], route["mode"]) == (self.p["place"], MODES[self.p["mode"]])


class MapsBus(_OnePlace):
    """There are directions by car and on foot only."""

    instructions = (
        "Start [a route|the route|directions] by bus to the {place}",
        "[Take|Use] the bus to [the |]{place}, start the route",
        "I want to [go|get] to the {place} by bus, start [the|a] route",
    )
    script = ("{place}", "Directions")
    answer = INFEASIBLE

    def done(self, phone: Admin) -> bool:
        return phone.rows(ROUTE)[0]["destination"] == ""


class MapsNoteDistance(_OnePlace):
    split = "dev"
    params = {**_OnePlace.params, "rank": FAR, "title": NOTE_TITLES}
    instructions = (
        "[Write|Put|Save] the distance to the {place} [into|in] a new note [titled|called] {title}",
        "Create a note [titled|called] {title} with the distance to the {place}",
        "How far is the {place}? Write it into a new note titled {title}",
    )
    script = (*SEARCH, Launch("Notes"), "New note", Type("{title}"), tap_field("Note"), Type("{shown}"), "Save")

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        phone.delete_where(NOTES, lambda row: row["title"] == self.p["title"])
        self.notes, self.p["shown"] = phone.rows(NOTES), self.language.readings(self.p["distance"])[0]

    def done(self, phone: Admin) -> bool:
        new = find_added(self.notes, phone.rows(NOTES))
        wanted = [[(self.p["title"], distance)] for distance in self.language.readings(self.p["distance"])]
        return [(r["title"], r["body"]) for r in new] in wanted
