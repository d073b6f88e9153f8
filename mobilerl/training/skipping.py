"""Ends a training whose optimizer steps cannot be taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mobilerl.records.engine import SkippedStep

T = TypeVar("T")
MOST_IN_A_ROW = 3
"""Number of optimizer steps skipped in a row that ends a training."""


class NotFinite(ArithmeticError):
    """Training went on without being able to learn. The message is one line."""


class StepCounter:
    """Counts the optimizer steps that were taken, and those that were skipped because something was not finite."""

    def __init__(self, objective: str) -> None:
        """`objective` names what is minimized."""
        self._objective = objective
        self.taken = self.skipped = self._in_a_row = 0
        self._cause = ""

    def attempt(self, step: Callable[[], T]) -> T | None:
        """The result of an optimizer step; None if it was skipped."""
        try:
            result = step()
        except SkippedStep as skip:
            self.skip(str(skip))
            return None
        self.take()
        return result

    def take(self) -> None:
        self.taken += 1
        self._in_a_row = 0

    def skip(self, cause: str) -> None:
        """Records a step that was not taken because the quantity `cause` was not finite."""
        self._cause = cause if not self._in_a_row else self._cause
        self.skipped += 1
        self._in_a_row += 1

    @property
    def hopeless(self) -> bool:
        """Whether as many steps in a row as allowed were skipped."""
        return self._in_a_row >= MOST_IN_A_ROW

    def check(self, kept: str, ended: bool = False) -> None:
        """Raises NotFinite if the training is hopeless or, if it has `ended`, if no step was ever taken.

        `kept` says what is left of it.
        """
        if self.hopeless:
            how = f"{self._in_a_row} optimizer steps in a row were skipped"
        elif ended and self.skipped and not self.taken:
            how = f"all {self.skipped} optimizer steps were skipped"
        else:
            return
        raise NotFinite(f"{self._objective}: NaN or infinity in {self._cause}, so {how}; {kept}")


def name_of(objective: object) -> str:
    """The name of a function, or of the function that made it: `clipped` for `clipped.<locals>.objective`."""
    return getattr(objective, "__qualname__", type(objective).__name__).partition(".<locals>")[0]
