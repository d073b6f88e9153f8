"""Votes, and what they amount to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Vote:
    """One reply. `success` is None when none could be had or read; `reason` then says why."""

    success: bool | None
    text: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`success` None is no verdict, which is not a failure. Without votes the verdict follows from a rule alone."""

    success: bool | None
    votes: tuple[Vote, ...] = ()
    reason: str = ""
    """Why there is no verdict, or by which rule it was given without a vote."""


def tally(votes: Sequence[Vote], wanted: int, rule: Literal["majority", "unanimous"]) -> tuple[bool | None, int]:
    """(verdict so far, how many more votes to ask for), when `wanted` votes may be asked for in all.

    No more votes are wanted once the verdict is certain, or once there can be none. Votes without a success or failure
    count for neither side: a majority is one of all `wanted` votes, and one such vote is enough to spoil unanimity.
    """
    yes = sum(vote.success is True for vote in votes)
    no = sum(vote.success is False for vote in votes)
    left = wanted - len(votes)
    if rule == "unanimous":
        if no:
            return False, 0
        return (True, 0) if yes == wanted else (None, left)
    quorum = wanted // 2 + 1
    missing = quorum - max(yes, no)
    if missing <= 0:
        return yes >= quorum, 0
    return None, missing if missing <= left else 0
