"""Tasks of the Notes app."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from envs.base import Action
from envs.phone.tasks.base import INFEASIBLE, Admin, Hand, Template, same_answer
from envs.phone.tasks.rows import added, edited
from envs.phone.words import NOTE_LINES, NOTE_TITLES

NOTES = "notes/notes"


def _note(rng: random.Random) -> dict[str, Any]:
    return {"title": rng.choice(NOTE_TITLES), "body": rng.choice(NOTE_LINES)}


class _OneNote(Template):
    """A note of the given title exists exactly once, between others."""

    app = "Notes"

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return _note(rng)

    def setup(self, phone: Admin) -> None:
        for row in phone.rows(NOTES):
            if row["title"] == self.p["title"]:
                phone.delete(NOTES, row["_id"])
        phone.insert(NOTES, title=self.p["title"], body=self.p["body"])
        self.before = phone.rows(NOTES)
        (self.note,) = (row["_id"] for row in self.before if row["title"] == self.p["title"])


class NotesCreate(Template):
    app = "Notes"
    instructions = (
        "Create a note titled {title} with the text {body}",
        "In Notes write {body} under the title {title}",
    )
    steps = 7

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return _note(rng)

    def setup(self, phone: Admin) -> None:
        for row in phone.rows(NOTES):
            if row["title"] == self.p["title"]:
                phone.delete(NOTES, row["_id"])
        self.before = phone.rows(NOTES)

    def check(self, phone: Admin, answer: str) -> bool:
        return added(self.before, phone.rows(NOTES)) == [{**self.p, "pinned": 0}]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Notes")
        yield ui.tap("New note")
        yield ui.type(self.p["title"])
        yield ui.tap_field(1)
        yield ui.type(self.p["body"])
        yield ui.tap("Save")
        yield ui.finish()


class NotesDelete(_OneNote):
    instructions = ("Delete the note {title}", "Remove {title} from Notes")
    steps = 5

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.rows(NOTES) == [row for row in self.before if row["_id"] != self.note]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Notes")
        yield ui.tap(self.p["title"])
        yield ui.tap("Delete")
        yield ui.tap("Delete")
        yield ui.finish()


class NotesPin(_OneNote):
    demo = False
    instructions = ("Pin the note {title}",)
    steps = 4

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.rows(NOTES) == edited(self.before, self.note, pinned=1)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Notes")
        yield ui.tap(self.p["title"])
        yield ui.tap("Pin")
        yield ui.finish()


class NotesRead(_OneNote):
    instructions = ("What does the note {title} say?",)
    steps = 2

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.p["body"])

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Notes")
        yield ui.finish(self.p["body"])


class NotesShare(_OneNote):
    """Notes has no sharing: the right answer is that it cannot be done."""

    instructions = ("Share the note {title} by email",)
    steps = 3
    feasible = False

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, INFEASIBLE) and phone.rows(NOTES) == self.before

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Notes")
        yield ui.tap(self.p["title"])
        yield ui.finish(INFEASIBLE)


TEMPLATES = (NotesCreate, NotesDelete, NotesPin, NotesRead, NotesShare)
