"""Tasks of the Notes app."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from envs.base import Action
from envs.phone.tasks.base import INFEASIBLE, Admin, Hand, Template, same_answer
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
        self.others = [r for r in phone.rows(NOTES) if r["title"] != self.p["title"]]

    def found(self, phone: Admin) -> list[dict[str, Any]]:
        """The notes of that title; a run that touched another note has failed."""
        rows = phone.rows(NOTES)
        untouched = [r for r in rows if r["title"] != self.p["title"]] == self.others
        return [r for r in rows if r["title"] == self.p["title"]] if untouched else []


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

    def check(self, phone: Admin, answer: str) -> bool:
        return sum(r["title"] == self.p["title"] and r["body"] == self.p["body"] for r in phone.rows(NOTES)) == 1

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
        return phone.rows(NOTES) == self.others

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
        return [r["pinned"] for r in self.found(phone)] == [1]

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
        return same_answer(answer, INFEASIBLE) and len(self.found(phone)) == 1

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Notes")
        yield ui.tap(self.p["title"])
        yield ui.finish(INFEASIBLE)


TEMPLATES = (NotesCreate, NotesDelete, NotesPin, NotesRead, NotesShare)
