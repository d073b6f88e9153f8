"""Instructions to train on, and the guard that keeps AndroidLab's benchmark out of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from mobilerl.envs.androidlab.tasks import OPERATION, SUITE, LabTask
from mobilerl.envs.base import Task
from mobilerl.envs.instructions.tasks import BareInstruction

SIMILAR = 0.8
"""Instructions are nearly equal if they share this part of all their words, digits included. Among the benchmark's own
tasks only one pair does (map_1 and map_3)."""
COMMON = frozenset("a an and at be by can could do for help i in is it me my need of please the to with you".split())
"""Words that say nothing about what an instruction asks for."""
_PREFIX = re.compile(r"you should use .{1,40}? to complete the following task:", re.IGNORECASE)
_WORD = re.compile(r"\d+|[^\W\d_]+")


class LabInstruction(BareInstruction):
    """An instruction in one of AndroidLab's apps."""

    app: Annotated[str, Field(min_length=1)]
    """Name of the app in AndroidLab, such as `Settings` or `map.me`. It is in front at the start."""
    max_steps: Annotated[int, Field(ge=1)] = 25

    def task(self, package: str) -> Task:
        """The task in AndroidLab's wording."""
        made = LabTask(self.id, self.app, package, self.instruction, OPERATION, "").task(self.max_steps)
        return replace(made, id=f"{SUITE}/{self.id}", params={**made.params, "split": self.split})


def check_held_out(instruction: str, benchmark: Iterable[LabTask]) -> None:
    """Raises ValueError for an instruction that equals or nearly equals a task of the benchmark."""
    said = words(_PREFIX.sub("", instruction))
    for task in benchmark:
        if (share := overlap(said, words(task.goal))) >= SIMILAR:
            raise ValueError(
                f"leak: {instruction!r} shares {share:.0%} of its words with AndroidLab's task {task.id}, "
                f"{task.goal!r}, which is held out for testing: remove it, or ask for something else"
            )


def words(text: str) -> frozenset[str]:
    """The words and numbers of a text, whatever its case and punctuation, without the `COMMON` ones."""
    return frozenset(_WORD.findall(unicodedata.normalize("NFKC", text).casefold())) - COMMON


def overlap(a: frozenset[str], b: frozenset[str]) -> float:
    """Share of the words of both that are in both (Jaccard index), from 0 to 1."""
    return len(a & b) / len(a | b) if a or b else 1.0
