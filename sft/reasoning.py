"""Stage 2 of SFT: bootstraps reasoning that leads to the expert's action (MobileRL, reasoning SFT).

A proposer generates candidates (thought, action) for every expert step. Those whose action matches the expert's are
kept, the model is trained on them, and the new model is the proposer of the next round.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mobilerl.envs.base import Action, Finish, LongPress, Tap
from mobilerl.policy.actions import describe
from mobilerl.policy.context import ContextPolicy
from mobilerl.policy.screen import Element
from mobilerl.sft.matching import matches
from mobilerl.sft.samples import ExpertStep


@dataclass(frozen=True, slots=True)
class Proposal:
    thought: str
    action: Action


def template_proposals(
    steps: Iterable[ExpertStep], context: ContextPolicy
) -> Iterator[tuple[ExpertStep, list[Proposal]]]:
    """Each step with a template thought and the expert's action, instead of an instruct model's proposals.

    They teach a policy to name its next action, and the mark that it will touch if prompts have marks.
    """
    return ((step, [Proposal(written_thought(step, context), step.action)]) for step in steps)


def written_thought(step: ExpertStep, context: ContextPolicy) -> str:
    """The purpose, and either what the expert had to remember, or the action in words with the element it depends on:
    "delete old lamp; tap Remove<2>", "read Films.jpg<4> finish 27 kB"; without marks if prompts have none."""
    words = _next(step, context.screen_style == "marks")
    return f"{step.purpose}; {words}" if step.purpose else words


def _next(step: ExpertStep, marked: bool) -> str:
    if step.thought:
        return step.thought
    words = describe(step.action, step.screen)
    if isinstance(step.action, (Tap, LongPress)):
        element = step.screen.at(step.action.x, step.action.y, marked_only=True)
        return f"{words}{_mark(element, marked)}" if element else words
    if isinstance(step.action, Finish):
        return f"{_locate_answer(step.action.message, step, marked)} {words}".strip()
    return words


def _mark(element: Element, marked: bool) -> str:
    return f"<{element.mark}>" if marked else ""


def _locate_answer(message: str, step: ExpertStep, marked: bool) -> str:
    """Where the answer is on the screen; "" if it is not in an element that the instruction refers to.

    It is a detail of a named element ("read Films.jpg<4>"), the name of the only element with a detail
    ("7:30<1>Plazutrux"), or the number of elements with it ("count 7:30<1> 7:30<5>").
    """
    asked = step.task.instruction.casefold()
    having: dict[str, list[Element]] = {}
    for element in step.screen.elements:
        name, _, details = element.text.partition("|")
        if element.mark is None or not name:
            continue
        if name.casefold() in asked and message and _within(message, details):
            return f"read {name}{_mark(element, marked)}"
        for detail in filter(None, re.split(r"\||, ", details)):
            if _within(detail.casefold(), asked):
                having.setdefault(detail, []).append(element)
    for detail, elements in having.items():
        if len(elements) == 1 and elements[0].text.partition("|")[0] == message:
            return f"{detail}{_mark(elements[0], marked) or ' '}{message}"
        if str(len(elements)) == message:
            return f"count {' '.join(detail + _mark(e, marked) for e in elements)}"
    return ""


def _within(part: str, text: str) -> bool:
    """Whether `text` contains `part` as whole words."""
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) is not None


def keep_thought(step: ExpertStep, proposals: Sequence[Proposal], rng: random.Random) -> str:
    """The thought of a random proposal whose action matches the step's; "" if there is none."""
    thoughts = [
        p.thought
        for p in proposals
        if p.thought and "</think>" not in p.thought and matches(p.action, step.action, step.screen)
    ]
    return rng.choice(thoughts) if thoughts else ""
