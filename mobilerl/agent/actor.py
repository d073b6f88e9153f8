"""Who plays an episode: a model through its prompt, or a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from envs.base import Action, Observation, Task
from mobilerl.agent.actions import parse_reply
from mobilerl.agent.context import ContextPolicy, Turn, build_messages
from mobilerl.agent.policy import Policy
from mobilerl.agent.screen import Screen
from mobilerl.engines.base import Sampling
from mobilerl.records import Completion


@dataclass(frozen=True, slots=True)
class Decision:
    """What an actor decided, with everything needed to train on it."""

    action: Action
    thought: str
    completion: Completion
    images: tuple[bytes, ...] = ()


class Actor(Protocol):
    """Plays one episode after another; `key` names the episode."""

    async def decide(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen, key: str
    ) -> Decision: ...


class ModelActor:
    """A policy behind a prompt and a parser."""

    def __init__(self, policy: Policy, context: ContextPolicy, sampling: Sampling) -> None:
        self.policy, self.context, self.sampling = policy, context, sampling

    async def decide(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen, key: str
    ) -> Decision:
        messages, images = build_messages(task, turns, observation, screen, self.context)
        completion = await self.policy.act(messages, images, self.sampling, key)
        reply = parse_reply(
            completion.text, screen, self.context.grounding, observation.width, observation.height
        )
        return Decision(reply.action, reply.thought, completion, tuple(images))


def scripted(action: Action, text: str = "") -> Decision:
    """A decision no model made."""
    return Decision(action, "", Completion((), (), (), 0, text))
