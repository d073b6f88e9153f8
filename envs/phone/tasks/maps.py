"""Tasks of the Maps app."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from envs.base import Action
from envs.phone.tasks.base import INFEASIBLE, Admin, Hand, Template, same_answer
from envs.phone.tasks.rows import added, edited
from envs.phone.words import NOTE_TITLES, PLACE_AREAS, PLACE_KINDS

NOTES, PLACES, ROUTE = "notes/notes", "maps/places", "maps/prefs"
WALK_MINUTES_PER_KM = 12
MODES = {"by car": "Car", "on foot": "Walk"}
"""What the instruction says -> what the app says."""


def _distance(metres: int) -> str:
    return f"{metres / 1000:.1f} km"


class _OnePlace(Template):
    """A place of the given name and rank: among the first page's six (0-5) or only to be found by searching (6-15)."""

    app = "Maps"
    saved = 0
    ranks = (0, 5)

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        place = f"{rng.choice(PLACE_AREAS)} {rng.choice(PLACE_KINDS)}"
        return {"place": place, "rank": rng.randint(*cls.ranks)}

    def setup(self, phone: Admin) -> None:
        kind = self.p["place"].split()[-1]
        rows = sorted(phone.rows(PLACES), key=lambda r: r["metres"])
        old = next(r for r in rows if r["name"].endswith(kind))
        swapped = rows[self.p["rank"]]
        phone.update(PLACES, swapped["_id"], metres=old["metres"])
        phone.update(PLACES, old["_id"], name=self.p["place"], metres=swapped["metres"], saved=self.saved)
        self.place_id, self.metres = old["_id"], swapped["metres"]
        self.places = phone.rows(PLACES)

    def saved_as(self, phone: Admin, saved: int) -> bool:
        """Whether the place is saved or not, and nothing else has changed."""
        return phone.rows(PLACES) == edited(self.places, self.place_id, saved=saved)

    def no_route(self, phone: Admin) -> bool:
        return phone.rows(ROUTE)[0]["destination"] == ""

    def search(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Maps")
        yield ui.tap("Search")
        yield ui.type(self.p["place"])


class MapsSave(_OnePlace):
    instructions = ("Save the place {place} in Maps", "Add {place} to the saved places")
    steps = 4

    def check(self, phone: Admin, answer: str) -> bool:
        return self.saved_as(phone, 1)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Maps")
        yield ui.tap(self.p["place"])
        yield ui.tap("Save")
        yield ui.finish()


class MapsUnsave(_OnePlace):
    demo = False
    saved = 1
    instructions = ("Remove {place} from the saved places", "Do not keep {place} as a saved place")
    steps = 4

    def check(self, phone: Admin, answer: str) -> bool:
        return self.saved_as(phone, 0)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Maps")
        yield ui.tap("Saved")
        yield ui.tap(f"Remove {self.p['place']}")
        yield ui.finish()


class MapsDistance(_OnePlace):
    ranks = (6, len(PLACE_KINDS) - 1)
    instructions = ("How far away is the {place}?", "What is the distance to the {place}?")
    steps = 4

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, _distance(self.metres))

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.search(ui)
        yield ui.finish(_distance(self.metres))


class MapsWalkTime(_OnePlace):
    instructions = ("How long is the walk to the {place}?", "How many minutes is the walk to {place}?")
    steps = 5

    def check(self, phone: Admin, answer: str) -> bool:
        wanted = max(1, round(self.metres / 1000 * WALK_MINUTES_PER_KM))
        return same_answer(answer, f"{wanted} min") or same_answer(answer, wanted)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Maps")
        yield ui.tap(self.p["place"])
        yield ui.tap("Directions")
        yield ui.tap("Walk")
        yield ui.finish(next(text for text in ui.texts() if text.endswith(" min")))


class MapsNavigate(_OnePlace):
    ranks = (6, len(PLACE_KINDS) - 1)
    instructions = ("Start a route {mode} to the {place}", "Start directions {mode} to the {place}")
    steps = 8

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {**super().sample(rng), "mode": rng.choice(sorted(MODES))}

    def check(self, phone: Admin, answer: str) -> bool:
        route = phone.rows(ROUTE)[0]
        return (route["destination"], route["mode"]) == (self.p["place"], MODES[self.p["mode"]])

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.search(ui)
        yield ui.tap(self.p["place"], -1)
        yield ui.tap("Directions")
        if self.p["mode"] == "on foot":
            yield ui.tap("Walk")
        yield ui.tap("Start")
        yield ui.finish()


class MapsBus(_OnePlace):
    """There are directions by car and on foot only."""

    instructions = ("Start a route by bus to the {place}", "Take the bus to {place}, start the route")
    steps = 4
    feasible = False

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, INFEASIBLE) and self.no_route(phone)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Maps")
        yield ui.tap(self.p["place"])
        yield ui.tap("Directions")
        yield ui.finish(INFEASIBLE)


class MapsNoteDistance(_OnePlace):
    split = "test"
    ranks = (6, len(PLACE_KINDS) - 1)
    instructions = ("Write the distance to the {place} into a new note titled {title}",)
    steps = 10

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {**super().sample(rng), "title": rng.choice(NOTE_TITLES)}

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        for row in phone.rows(NOTES):
            if row["title"] == self.p["title"]:
                phone.delete(NOTES, row["_id"])
        self.notes = phone.rows(NOTES)

    def check(self, phone: Admin, answer: str) -> bool:
        new = added(self.notes, phone.rows(NOTES))
        return [(r["title"], r["body"]) for r in new] == [(self.p["title"], _distance(self.metres))]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.search(ui)
        yield ui.launch("Notes")
        yield ui.tap("New note")
        yield ui.type(self.p["title"])
        yield ui.tap_field(1)
        yield ui.type(_distance(self.metres))
        yield ui.tap("Save")
        yield ui.finish()


TEMPLATES = (MapsSave, MapsUnsave, MapsDistance, MapsWalkTime, MapsNavigate, MapsBus, MapsNoteDistance)
