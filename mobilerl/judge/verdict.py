"""The judge's reply -> success, failure, or no verdict. Nothing is guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_QUOTE = 80

_DECORATION = re.compile(r"[*_#`\"']|</?answer>|<\|(?:begin|end)_of_box\|>")
"""Markdown, and the tags in which GLM and others wrap an answer."""
_STATUS = re.compile(r"status\s*:\s*(.*)")
_WORDS = {"success": True, "failure": False}


@dataclass(frozen=True, slots=True)
class Reading:
    """`success` is None when the reply holds no verdict; `reason` then says why."""

    success: bool | None
    reason: str = ""


def read_verdict(text: str) -> Reading:
    """Reads a reply that must end in a line of its own, `Status: success` or `Status: failure`.

    Letter case, Markdown and a closing full stop do not matter. The word is compared whole ("unsuccessful" is not a
    success), what a model thought aloud in <think> tags does not count, and two different statuses cancel out.
    """
    answer = after_thoughts(text)
    if answer is None:
        return Reading(None, "the reply ends in the middle of its thoughts")
    lines = [line.strip() for line in answer.splitlines() if _plain(line)]
    if not lines:
        return Reading(None, "the reply is empty")
    stated = [match[1] for line in lines if (match := _STATUS.fullmatch(_plain(line)))]
    if _STATUS.fullmatch(_plain(lines[-1])) is None:
        return Reading(None, f"the reply does not end in a status line but in {_quoted(lines[-1])}")
    if stated[-1] not in _WORDS:
        return Reading(None, f"the status is neither success nor failure but {_quoted(stated[-1])}")
    if len(set(stated)) > 1:
        return Reading(None, f"the reply gives different statuses: {', '.join(_quoted(s) for s in stated)}")
    return Reading(_WORDS[stated[-1]])


def after_thoughts(text: str) -> str | None:
    """What a reply says once it has thought aloud in <think> tags; None when it ends while it thinks."""
    _, closed, answer = text.rpartition("</think>")
    return None if not closed and "<think>" in text else answer


def _plain(line: str) -> str:
    """What decorates a word goes; what stands in the middle of one cuts it in two."""
    return " ".join(_DECORATION.sub(" ", line).split()).removesuffix(".").strip().lower()


def _quoted(text: str) -> str:
    return repr(text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "...")
