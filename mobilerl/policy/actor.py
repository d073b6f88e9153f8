"""What decides the actions of an episode: a model behind a prompt and a parser, or a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from envs.base import Action, Observation, Task
from mobilerl.interfaces import Sampling
from mobilerl.policy.context import ContextPolicy, Turn, build_messages
from mobilerl.policy.parsing import parse_reply
from mobilerl.policy.screen import Screen
from mobilerl.records import Completion

Messages = Sequence[dict[str, Any]]


class Policy(Protocol):
    """Chat messages and screenshots in, a completion out. Raises only when the model cannot be reached."""

    async def act(self, messages: Messages, images: Sequence[bytes], sampling: Sampling, key: str = "") -> Completion:
        """`key` names the episode; it orders requests, so that batches do not depend on timing."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An actor's decision, with everything needed to train on it."""

    action: Action
    thought: str
    completion: Completion
    images: tuple[bytes, ...] = ()


class Actor(Protocol):
    """Acts in one episode after another; `key` names the episode."""

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
        reply = parse_reply(completion.text, screen, self.context.grounding, observation.width, observation.height)
        return Decision(reply.action, reply.thought, completion, tuple(images))


def scripted(action: Action, text: str = "") -> Decision:
    """A decision made without a model."""
    return Decision(action, "", Completion((), (), (), 0, text))
