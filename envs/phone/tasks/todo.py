"""Tasks of the to-do app, which is called Tasks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from envs.base import Action
from envs.phone.tasks.base import INFEASIBLE, Admin, Hand, Template, same_answer
from envs.phone.tasks.rows import added, edited
from envs.phone.words import FIRST_NAMES, NOTE_LINES, WEEKDAYS

TASKS = "tasks/tasks"
PREFS = "tasks/prefs"


class _Tasks(Template):
    """No task of the given title exists."""

    app = "Tasks"

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"title": rng.choice(NOTE_LINES), "priority": rng.choice(("High", "Low")), "due": rng.choice(WEEKDAYS)}

    def setup(self, phone: Admin) -> None:
        for row in phone.rows(TASKS):
            if row["title"] == self.p["title"]:
                phone.delete(TASKS, row["_id"])
        self.before = phone.rows(TASKS)


class _OneTask(_Tasks):
    """One task of the given title exists, between others."""

    done = 0

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        phone.insert(TASKS, title=self.p["title"], due=self.p["due"], done=self.done)
        self.others, self.before = self.before, phone.rows(TASKS)
        self.id = self.before[-1]["_id"]


class TodoComplete(_OneTask):
    instructions = ("Mark the task {title} as done", "In Tasks tick off {title}")
    steps = 3

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.rows(TASKS) == edited(self.before, self.id, done=1)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Tasks")
        yield ui.tap(f"Done {self.p['title']}")
        yield ui.finish()


class TodoReopen(_OneTask):
    """The list shows open tasks only: the filter has to be changed first."""

    demo = False
    done = 1
    instructions = ("Mark the done task {title} as not done", "Reopen the done task {title}")
    steps = 5

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        phone.update(PREFS, 1, filter="Open")

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.rows(TASKS) == edited(self.before, self.id, done=0)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Tasks")
        yield ui.tap("Filter")
        yield ui.tap("Done")
        yield ui.tap(f"Done {self.p['title']}")
        yield ui.finish()


class TodoAdd(_Tasks):
    instructions = ("Add the task {title} with {priority} priority", "Create a {priority} priority task {title}")
    steps = 7

    def check(self, phone: Admin, answer: str) -> bool:
        wanted = {"title": self.p["title"], "done": 0, "priority": self.p["priority"], "due": "No day"}
        return added(self.before, phone.rows(TASKS)) == [wanted]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Tasks")
        yield ui.tap("New task")
        yield ui.type(self.p["title"])
        yield from _choose(ui, "Priority", self.p["priority"])
        yield ui.tap("Save")
        yield ui.finish()


class TodoAddDue(_Tasks):
    instructions = (
        "Add the task {title} with {priority} priority for {due}",
        "Create a {priority} priority task {title} due on {due}",
    )
    steps = 9

    def check(self, phone: Admin, answer: str) -> bool:
        wanted = {"title": self.p["title"], "done": 0, "priority": self.p["priority"], "due": self.p["due"]}
        return added(self.before, phone.rows(TASKS)) == [wanted]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Tasks")
        yield ui.tap("New task")
        yield ui.type(self.p["title"])
        yield from _choose(ui, "Priority", self.p["priority"])
        yield from _choose(ui, "Day", self.p["due"])
        yield ui.tap("Save")
        yield ui.finish()


class TodoPriority(_OneTask):
    split = "test"
    instructions = (
        "Change the priority of the task {title} to {priority}",
        "Give the task {title} {priority} priority",
    )
    steps = 6

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.rows(TASKS) == edited(self.before, self.id, priority=self.p["priority"])

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Tasks")
        yield ui.tap(self.p["title"])
        yield from _choose(ui, "Priority", self.p["priority"])
        yield ui.tap("Save")
        yield ui.finish()


class TodoDelete(_OneTask):
    demo = False
    instructions = ("Delete the task {title}", "Remove {title} from Tasks")
    steps = 4

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.rows(TASKS) == self.others

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Tasks")
        yield ui.tap(self.p["title"])
        yield ui.tap("Delete")
        yield ui.finish()


class TodoDue(_OneTask):
    instructions = ("On which day is the task {title} due?", "Which day is set for the task {title}?")
    steps = 2

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.p["due"])

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Tasks")
        yield ui.finish(self.p["due"])


class TodoAssign(_OneTask):
    """Tasks belong to no one: the right answer is that it cannot be done."""

    instructions = ("Assign the task {title} to {name}",)
    steps = 3
    feasible = False

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {**super().sample(rng), "name": rng.choice(FIRST_NAMES)}

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, INFEASIBLE) and phone.rows(TASKS) == self.before

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Tasks")
        yield ui.tap(self.p["title"])
        yield ui.finish(INFEASIBLE)


def _choose(ui: Hand, opener: str, name: str) -> Iterator[Action]:
    yield ui.tap(opener)
    yield ui.tap(name)


TEMPLATES = (TodoComplete, TodoReopen, TodoAdd, TodoAddDue, TodoPriority, TodoDelete, TodoDue, TodoAssign)
