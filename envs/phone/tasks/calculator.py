"""Tasks of the Calculator app."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from mobilerl.envs.base import Action, Launch
from mobilerl.envs.phone.apps.calculator import evaluate
from mobilerl.envs.phone.tasks.base import Admin, Row, RowTemplate, Type
from mobilerl.envs.phone.tasks.helpers import find_added
from mobilerl.envs.phone.tasks.notes import NOTES
from mobilerl.envs.phone.tasks.ui import UI


def _small_sum(rng: random.Random) -> str:
    a, b = sorted((rng.randint(2, 9), rng.randint(2, 9)), reverse=True)
    return f"{a} {rng.choice('+-×')} {b}"


def _calculate(ui: UI, p: Row) -> Iterator[Action]:
    for key in [*p["sum"].replace(" ", ""), "="]:
        # The display may read the same as a key; the key is further down.
        yield from ui.press(key, -1)


class _Sum(RowTemplate):
    """`sum` is an expression of single digits, and not in the history."""

    app = "Calculator"
    table = "calculator/history"
    params = {"sum": _small_sum}

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.p["result"] = evaluate(self.p["sum"])

    def done(self, phone: Admin) -> bool:
        """Whether the sum was calculated in the app."""
        return self.p["sum"] in [r["expression"] for r in find_added(self.before, phone.rows(self.table))]


class CalculatorCompute(_Sum):
    instructions = (
        "[Calculate|Work out] {sum} [in|with|using] [Calculator|the calculator] and tell [|me ]the result",
        "What does the Calculator give for {sum}?",
        "What is {sum}? [Use|Open] [Calculator|the calculator]",
    )
    script = (_calculate,)
    steps = 6
    answer = "{result}"

    def conditions(self, phone: Admin, answer: str) -> list[bool]:
        return [self.done(phone), self.check(phone, answer)]


class CalculatorRecall(_Sum):
    """The result is in the history already."""

    instructions = (
        "[Which|What] result does the [calculator history|history of the calculator] show for {sum}?",
        "[Look up|Find] {sum} in the calculator history and tell me the result",
        "What [is|was] the result of {sum} in the [Calculator history|history of Calculator]?",
        "In the history of the calculator, what is the result of {sum}?",
    )
    params = {"sum": lambda rng: f"{rng.randint(21, 60)} {rng.choice('+-')} {rng.randint(2, 20)}"}
    script = ("History",)
    answer = "{result}"

    def setup(self, phone: Admin) -> None:
        phone.insert(self.table, expression=self.p["sum"], result=self.p["result"])

    def done(self, phone: Admin) -> bool:
        return True


class CalculatorToNote(_Sum):
    """Two apps: the result becomes the title of a note."""

    split = "dev"
    instructions = (
        "[Calculate|Work out] {sum} and [save|write] the result as the title of a [|new ]note",
        "Use [Calculator|the calculator] for {sum} and create a [|new ]note with the result as title",
        "The title of a new note should be the result of {sum}, use the calculator",
    )
    script = (_calculate, Launch("Notes"), "New note", Type("{result}"), "Save")
    steps = 10

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        self.notes = phone.rows(NOTES)

    def done(self, phone: Admin) -> bool:
        new = find_added(self.notes, phone.rows(NOTES))
        return super().done(phone) and [str(r["title"]) for r in new] == [self.p["result"]]
