"""Tasks of the Calculator app."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from envs.base import Action
from envs.phone.apps.calculator import evaluate
from envs.phone.tasks.base import Admin, Hand, Template, same_answer
from envs.phone.tasks.rows import added

HISTORY = "calculator/history"
NOTES = "notes/notes"


class _Sum(Template):
    """`sum` is an expression of single digits, and not in the history."""

    app = "Calculator"

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        a, b = sorted((rng.randint(2, 9), rng.randint(2, 9)), reverse=True)
        return {"sum": f"{a} {rng.choice('+-×')} {b}"}

    @property
    def result(self) -> str:
        return evaluate(self.p["sum"])

    def setup(self, phone: Admin) -> None:
        self.before = phone.rows(HISTORY)

    def calculated(self, phone: Admin) -> bool:
        """Whether the sum was calculated in the app."""
        return self.p["sum"] in [r["expression"] for r in added(self.before, phone.rows(HISTORY))]

    def calculate(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Calculator")
        for key in [*self.p["sum"].replace(" ", ""), "="]:
            # The display may read the same as a key; the key is further down.
            yield ui.tap(key, -1)


class CalculatorCompute(_Sum):
    instructions = ("Calculate {sum} in Calculator and tell the result", "What does the Calculator give for {sum}?")
    steps = 6

    def check(self, phone: Admin, answer: str) -> bool:
        return self.calculated(phone) and same_answer(answer, self.result)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.calculate(ui)
        yield ui.finish(self.result)


class CalculatorRecall(_Sum):
    """The result is in the history already."""

    instructions = ("Which result does the calculator history show for {sum}?",)
    steps = 3

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"sum": f"{rng.randint(21, 60)} {rng.choice('+-')} {rng.randint(2, 20)}"}

    def setup(self, phone: Admin) -> None:
        phone.insert(HISTORY, expression=self.p["sum"], result=self.result)

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.result)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Calculator")
        yield ui.tap("History")
        yield ui.finish(self.result)


class CalculatorToNote(_Sum):
    """Two apps: the result becomes the title of a note."""

    split = "test"
    instructions = ("Calculate {sum} and save the result as the title of a note",)
    steps = 10

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        self.notes = phone.rows(NOTES)

    def check(self, phone: Admin, answer: str) -> bool:
        new = added(self.notes, phone.rows(NOTES))
        return self.calculated(phone) and [str(r["title"]) for r in new] == [self.result]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.calculate(ui)
        yield ui.launch("Notes")
        yield ui.tap("New note")
        yield ui.type(self.result)
        yield ui.tap("Save")
        yield ui.finish()


TEMPLATES = (CalculatorCompute, CalculatorRecall, CalculatorToNote)
