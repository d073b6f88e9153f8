"""SFT samples: pairs of a prompt with images and a response, encoded once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from mobilerl.envs.base import Action, Observation, Task
from mobilerl.models.codec import Codec
from mobilerl.policy.context import ContextPolicy, build_messages
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import Turn


@dataclass(frozen=True, slots=True)
class ExpertStep:
    """One step of a demonstration: the observation, the previous turns, and the expert's action."""

    task: Task
    turns: tuple[Turn, ...]
    observation: Observation
    screen: Screen
    action: Action
    thought: str = field(default="", kw_only=True)
    """What the expert had to remember; "" if nothing beyond the action."""
    purpose: str = field(default="", kw_only=True)
    """The purpose of this and the following actions; "" if the expert does not begin something new."""

    def messages(self, context: ContextPolicy) -> tuple[list[dict[str, Any]], list[bytes]]:
        return build_messages(self.task, self.turns, self.observation, self.screen, context)

    def write_response(self, context: ContextPolicy, thought: str | None = None) -> str:
        return context.write_response(self.action, self.screen, thought)


@dataclass(frozen=True, slots=True)
class Sample:
    """A token-exact training sample. Only `response_ids` have a loss; if `trained` is given, only those marked in
    it."""

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    images: tuple[bytes, ...]
    trained: tuple[bool, ...] | None = None

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.response_ids)


def encode(step: ExpertStep, context: ContextPolicy, codec: Codec, thought: str | None = None) -> Sample:
    """Encodes a step. Without a thought the sample is reasoning-free."""
    context = replace(context, size_seen=codec.images.size_seen)
    messages, images = step.messages(context)
    return Sample(
        codec.encode(messages, images), codec.encode_response(step.write_response(context, thought)), tuple(images)
    )


def encode_all(steps: Iterable[ExpertStep], context: ContextPolicy, codec: Codec) -> Iterator[Sample]:
    """Encodes steps one by one, reasoning-free."""
    return (encode(step, context, codec) for step in steps)
