"""Stage 2 of SFT: bootstraps reasoning that leads to the expert's action (MobileRL, reasoning SFT).

A proposer generates candidates (thought, action) for every expert step. Those with the expert's action are kept, the
model is trained on them, and the new model is the proposer of the next round.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mobilerl.envs.base import Action, Finish, Launch, LongPress, Swipe, Tap, Type
from mobilerl.policy.actions import describe, nearest_swipe
from mobilerl.policy.actor import Policy
from mobilerl.policy.context import ContextPolicy
from mobilerl.policy.screen import Element, Screen
from mobilerl.records.engine import Sampling
from mobilerl.sft.samples import ExpertStep
from mobilerl.system.terminal import progress_bar

IN_FLIGHT = 64
"""Maximum number of concurrent proposal requests."""


@dataclass(frozen=True, slots=True)
class Proposal:
    thought: str
    action: Action


def template_proposals(steps: Sequence[ExpertStep]) -> list[list[Proposal]]:
    """One proposal per step, with a template thought and the expert's action, instead of an instruct model's proposals.

    They teach a policy to name its next action, and with mark grounding the mark that it will touch.
    """
    return [[Proposal(written_thought(step), step.action)] for step in steps]


def written_thought(step: ExpertStep) -> str:
    """The purpose, and either what the expert had to remember, or the action in words with the element it depends on:
    "delete old lamp; tap Remove<2>", "read Films.jpg<4> finish 27 kB"."""
    return f"{step.purpose}; {_next(step)}" if step.purpose else _next(step)


def _next(step: ExpertStep) -> str:
    if step.thought:
        return step.thought
    words = describe(step.action, step.screen)
    if isinstance(step.action, (Tap, LongPress)):
        element = step.screen.at(step.action.x, step.action.y, marked_only=True)
        return f"{words}<{element.mark}>" if element else words
    if isinstance(step.action, Finish):
        return f"{_locate_answer(step.action.message, step)} {words}".strip()
    return words


def _locate_answer(message: str, step: ExpertStep) -> str:
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
            return f"read {name}<{element.mark}>"
        for detail in filter(None, re.split(r"\||, ", details)):
            if _within(detail.casefold(), asked):
                having.setdefault(detail, []).append(element)
    for detail, elements in having.items():
        if len(elements) == 1 and elements[0].text.partition("|")[0] == message:
            return f"{detail}<{elements[0].mark}>{message}"
        if str(len(elements)) == message:
            return f"count {' '.join(f'{detail}<{e.mark}>' for e in elements)}"
    return ""


def _within(part: str, text: str) -> bool:
    """Whether `text` contains `part` as whole words."""
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) is not None


async def sample_proposals(
    policy: Policy,
    context: ContextPolicy,
    sampling: Sampling,
    steps: Sequence[ExpertStep],
    candidates: int,
    first: int = 0,
) -> list[list[Proposal]]:
    """`candidates` proposals per step from a model: the previous round's policy, or an instruct model on a server.

    `first` is the number of the first step in the round, which determines the seeds of its proposals.
    """
    gate = asyncio.Semaphore(IN_FLIGHT)

    async def propose(step: ExpertStep, key: str) -> Proposal:
        messages, images = step.messages(context)
        async with gate:
            completion = await policy.act(messages, images, sampling, key)
        response = context.parse(completion.text, step.screen)
        show(next(done), len(keys))
        return Proposal(response.thought, response.action)

    keys = [(i, f"{first + i:08d}-{k:02d}") for i in range(len(steps)) for k in range(candidates)]
    done = itertools.count(1)
    with progress_bar("proposals") as show:
        flat = await asyncio.gather(*(propose(steps[i], key) for i, key in keys))
    return [list(flat[i * candidates : (i + 1) * candidates]) for i in range(len(steps))]


def same_action(a: Action, b: Action, screen: Screen) -> bool:
    """Whether two actions have the same effect: taps on the same element, texts that differ only in case."""
    match a, b:
        case (Tap(x, y), Tap(u, v)) | (LongPress(x, y), LongPress(u, v)):
            return screen.at(x, y) is not None and screen.at(x, y) is screen.at(u, v)
        case (Type(s), Type(t)) | (Launch(s), Launch(t)) | (Finish(s), Finish(t)):
            return s.strip().casefold() == t.strip().casefold()
        case Swipe(), Swipe():
            size = (screen.width, screen.height)
            return nearest_swipe(a, *size)[0] == nearest_swipe(b, *size)[0]
    return a == b


def bootstrap(
    steps: Sequence[ExpertStep], proposals: Sequence[Sequence[Proposal]], rng: random.Random
) -> tuple[list[tuple[ExpertStep, str]], float]:
    """The thought of a random matching proposal for each step that has one, and the fraction of such steps."""
    kept: list[tuple[ExpertStep, str]] = []
    for step, candidates in zip(steps, proposals, strict=True):
        thoughts = [
            p.thought
            for p in candidates
            if p.thought and "</think>" not in p.thought and same_action(p.action, step.action, step.screen)
        ]
        if thoughts:
            kept.append((step, rng.choice(thoughts)))
    return kept, len(kept) / len(steps) if steps else 0.0
