"""Why responses could not be read as an action: a closed set of reasons, for metrics and results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Protocol

from mobilerl.envs.base import Action, Invalid
from mobilerl.records import Completion

NO_PARSER = "start it without --tool-call-parser (vLLM: and without --enable-auto-tool-choice)"
"""What to do about a server that takes calls out of responses."""
MANY = 0.1
"""Share of unreadable responses above which they are shown on the terminal."""
LONGEST_QUOTE = 500
"""Maximum characters of a response in results.json."""


class Why(StrEnum):
    """Reason for an invalid action. It is shorter than `Invalid.reason`, which is written for the model."""

    NO_TEXT = "no_text"
    """The response is empty."""
    CUT_OFF = "cut_off"
    """The response reached the token limit (`agent.max_new_tokens`)."""
    NO_CALL = "no_call"
    """The response has no call of an action where its format wants one."""
    MALFORMED = "malformed"
    """The call or its arguments cannot be read."""
    UNKNOWN_ACTION = "unknown_action"
    """The call is of an action that the format does not have, or that cannot be carried out here."""
    OFF_SCREEN = "off_screen"
    """The point or mark is not on the screen."""
    PROMPT_TOO_LONG = "prompt_too_long"
    """The model was not asked, because not even the screen fits into its prompt."""


_SAID: Mapping[Why, tuple[str, ...]] = {
    Why.PROMPT_TOO_LONG: ("does not fit into the prompt",),
    Why.OFF_SCREEN: ("is not on the screen", "is not within"),
    Why.UNKNOWN_ACTION: ("unknown action", "cannot be pressed", "cannot be shown", "nobody is there"),
    Why.NO_CALL: ("there is no ", "expected a call"),
}
"""Parts of the reasons that the parsers of all formats give; a reason without any is MALFORMED."""


def why(reason: str, completion: Completion, max_new_tokens: int) -> Why:
    """The kind of the parser's `reason` for not reading a response."""
    found = next((kind for kind, parts in _SAID.items() if any(part in reason for part in parts)), Why.MALFORMED)
    if found in (Why.NO_CALL, Why.MALFORMED):
        if completion.cut_off or len(completion.token_ids) >= max_new_tokens:
            return Why.CUT_OFF
        if not completion.text.strip():
            return Why.NO_TEXT
    return found


def explain_unreadable(action: Action, completion: Completion, max_new_tokens: int) -> Action:
    """The action that a parser read in a response; an invalid one says why."""
    if not isinstance(action, Invalid):
        return action
    return replace(action, why=why(action.reason, completion, max_new_tokens))


class Answer(Protocol):
    """A response and the action that was read in it."""

    @property
    def completion(self) -> Completion: ...
    @property
    def action(self) -> Action: ...


def count_unreadable(answers: Iterable[Answer]) -> dict[str, dict[str, int | str]]:
    """`count` and `first` response of those that could not be read, by reason."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for answer in answers:
        if isinstance(answer.action, Invalid):
            kind = str(answer.action.why or Why.MALFORMED)
            first.setdefault(kind, answer.completion.text[:LONGEST_QUOTE])
            counts[kind] += 1
    return {kind: {"count": counts[kind], "first": said} for kind, said in first.items()}
