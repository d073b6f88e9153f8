"""Parses a judge's responses into a verdict: success, failure, or none. Nothing is guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_QUOTE = 80

_DECORATION = re.compile(r"[*_#`\"']|</?answer>|<\|(?:begin|end)_of_box\|>")
"""Markdown, and the tags that GLM and others put around an answer."""
_STATUS = re.compile(r"status\s*:\s*(.*)")
_WORDS = {"success": True, "failure": False}


@dataclass(frozen=True, slots=True)
class Vote:
    """One response. If it has no verdict, `success` is None and `reason` says why."""

    success: bool | None
    text: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on an episode. `success` None is no verdict, which is not a failure. Without a vote, a rule decided."""

    success: bool | None
    vote: Vote | None = None
    reason: str = ""
    """Why there is no verdict, or the rule that decided without a vote."""


def read_verdict(text: str) -> Vote:
    """Parses a response that must end in a line `Status: success` or `Status: failure`.

    Letter case, Markdown and a final period do not matter. Whole words are compared ("unsuccessful" is no success),
    reasoning in <think> tags does not count, and two different statuses give no verdict.
    """
    answer = without_reasoning(text)
    if answer is None:
        return Vote(None, text, "the response ends in the middle of its reasoning")
    lines = [line.strip() for line in answer.splitlines() if _plain(line)]
    if not lines:
        return Vote(None, text, "the response is empty")
    stated = [match[1] for line in lines if (match := _STATUS.fullmatch(_plain(line)))]
    if _STATUS.fullmatch(_plain(lines[-1])) is None:
        return Vote(None, text, f"the response does not end in a status line but in {_quote(lines[-1])}")
    if stated[-1] not in _WORDS:
        return Vote(None, text, f"the status is neither success nor failure but {_quote(stated[-1])}")
    if len(set(stated)) > 1:
        return Vote(None, text, f"the response gives different statuses: {', '.join(_quote(s) for s in stated)}")
    return Vote(_WORDS[stated[-1]], text)


def without_reasoning(text: str) -> str | None:
    """The response after its <think> tags; None if it ends inside them."""
    _, closed, answer = text.rpartition("</think>")
    return None if not closed and "<think>" in text else answer


def _plain(line: str) -> str:
    return " ".join(_DECORATION.sub(" ", line).split()).removesuffix(".").strip().lower()


def _quote(text: str) -> str:
    return repr(text if len(text) <= MAX_QUOTE else text[:MAX_QUOTE] + "...")
