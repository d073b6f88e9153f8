"""Stage 2: reasoning that leads to the expert's action, bootstrapped from proposals.

For every expert step a proposer gives candidates (thought, action); those whose action is the expert's are kept, the
model is trained on them, and the new model proposes in the next round (MobileRL, reasoning SFT).
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from envs.base import Action, Finish, Launch, LongPress, Swipe, Tap, Type
from mobilerl.agent.actions import describe, parse_reply
from mobilerl.agent.context import ContextPolicy
from mobilerl.agent.policy import Policy
from mobilerl.agent.screen import Screen
from mobilerl.agent.swipes import nearest_swipe
from mobilerl.engines.base import Sampling
from sft.samples import ExpertStep


@dataclass(frozen=True, slots=True)
class Proposal:
    thought: str
    action: Action


class Proposer(Protocol):
    def propose(self, steps: Sequence[ExpertStep], candidates: int) -> list[list[Proposal]]:
        """Up to `candidates` proposals for every step."""


class ThoughtWriter:
    """Writes the thought from the expert's action, by template. It stands in for an instruct model where there is none.

    It is told the answer, so its proposals always match; what a policy learns from it is to name what it will do, and
    with mark grounding the mark of what it will touch, before it does it.
    """

    def propose(self, steps: Sequence[ExpertStep], candidates: int) -> list[list[Proposal]]:
        return [[Proposal(written_thought(step), step.action)] for step in steps]


def written_thought(step: ExpertStep) -> str:
    """The action in words, after what it rests on: "tap Save<2>", "read Films.jpg<4> finish 27 kB"."""
    words = describe(step.action, step.screen)
    if isinstance(step.action, (Tap, LongPress)):
        element = step.screen.at(step.action.x, step.action.y, marked_only=True)
        return f"{words}<{element.mark}>" if element else words
    if isinstance(step.action, Finish):
        source = _source(step.action.message, step)
        return f"read {source} {words}" if source else words
    return words


def _source(message: str, step: ExpertStep) -> str:
    """`name<mark>` of the element that the instruction names and whose details hold the answer; "" if none does."""
    asked = step.task.instruction.casefold()
    for element in step.screen.elements:
        name, _, details = element.text.partition("|")
        holds = re.search(rf"(?<!\w){re.escape(message)}(?!\w)", details) if message else None
        if holds and element.mark is not None and name and name.casefold() in asked:
            return f"{name}<{element.mark}>"
    return ""


class PolicyProposer:
    """Samples from a model: the policy of the round before, or any instruct model behind a server."""

    def __init__(self, policy: Policy, context: ContextPolicy, sampling: Sampling, in_flight: int = 64) -> None:
        self.policy, self.context, self.sampling, self.in_flight = policy, context, sampling, in_flight

    def propose(self, steps: Sequence[ExpertStep], candidates: int) -> list[list[Proposal]]:
        return asyncio.run(self._propose_all(steps, candidates))

    async def _propose_all(self, steps: Sequence[ExpertStep], candidates: int) -> list[list[Proposal]]:
        gate = asyncio.Semaphore(self.in_flight)

        async def one(i: int, k: int) -> Proposal:
            async with gate:
                return await self._propose(steps[i], f"{i:08d}-{k:02d}")

        jobs = [one(i, k) for i in range(len(steps)) for k in range(candidates)]
        flat = await asyncio.gather(*jobs)
        return [list(flat[i * candidates : (i + 1) * candidates]) for i in range(len(steps))]

    async def _propose(self, step: ExpertStep, key: str) -> Proposal:
        messages, images = step.messages(self.context)
        completion = await self.policy.act(messages, images, self.sampling, key)
        seen = step.observation
        reply = parse_reply(completion.text, step.screen, self.context.grounding, seen.width, seen.height)
        return Proposal(reply.thought, reply.action)


def same_action(a: Action, b: Action, screen: Screen) -> bool:
    """Whether two actions do the same on a screen: taps by the element they hit, texts without regard to case."""
    match a, b:
        case (Tap(x, y), Tap(u, v)) | (LongPress(x, y), LongPress(u, v)):
            return screen.at(x, y) is not None and screen.at(x, y) is screen.at(u, v)
        case (Type(s), Type(t)) | (Launch(s), Launch(t)) | (Finish(s), Finish(t)):
            return s.strip().casefold() == t.strip().casefold()
        case Swipe(), Swipe():
            size = (screen.width, screen.height)
            return nearest_swipe(a, *size)[0] == nearest_swipe(b, *size)[0]
    return a == b


@dataclass(frozen=True, slots=True)
class Reasoned:
    """An expert step with a thought that led to its action."""

    step: ExpertStep
    thought: str


def bootstrap(
    steps: Sequence[ExpertStep], proposer: Proposer, candidates: int, rng: random.Random
) -> tuple[list[Reasoned], float]:
    """One kept thought per step that has any, drawn from the matching proposals; and the share of steps that have."""
    kept: list[Reasoned] = []
    for step, proposals in zip(steps, proposer.propose(steps, candidates), strict=True):
        thoughts = [
            p.thought for p in proposals
            if p.thought and "</think>" not in p.thought and same_action(p.action, step.action, step.screen)
        ]  # fmt: skip
        if thoughts:
            kept.append(Reasoned(step, rng.choice(thoughts)))
    return kept, len(kept) / len(steps) if steps else 0.0
