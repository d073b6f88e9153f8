"""What the warm-up trains on: one (prompt, images, reply) per sample, encoded once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from envs.base import Action, Observation, Task
from mobilerl.agent.actions import format_reply
from mobilerl.agent.context import ContextPolicy, Turn, build_messages
from mobilerl.agent.screen import Screen
from mobilerl.engines.codec import Codec


@dataclass(frozen=True, slots=True)
class ExpertStep:
    """One step of a demonstration: what was seen, what came before, and what the expert did."""

    task: Task
    turns: tuple[Turn, ...]
    observation: Observation
    screen: Screen
    action: Action

    def messages(self, context: ContextPolicy) -> tuple[list[dict[str, Any]], list[bytes]]:
        return build_messages(self.task, self.turns, self.observation, self.screen, context)

    def reply(self, context: ContextPolicy, thought: str | None = None) -> str:
        return format_reply(self.action, self.screen, context.grounding, thought)


@dataclass(frozen=True, slots=True)
class Sample:
    """A token-exact training example; only `response_ids` carry loss, and of them only the `trained` ones if given."""

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    images: tuple[bytes, ...]
    trained: tuple[bool, ...] | None = None

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.response_ids)


def encode(step: ExpertStep, context: ContextPolicy, codec: Codec, thought: str | None = None) -> Sample:
    """A step as a sample; without a thought it is reasoning-free."""
    messages, images = step.messages(context)
    return Sample(codec.encode(messages, images), codec.encode_reply(step.reply(context, thought)), tuple(images))


def encode_all(steps: Iterable[ExpertStep], context: ContextPolicy, codec: Codec) -> list[Sample]:
    """Equal pictures become one object: a stream of recorded steps has a copy of a screen for each prompt with it."""
    pictures: dict[bytes, bytes] = {}
    made = []
    for step in steps:
        sample = encode(step, context, codec)
        made.append(replace(sample, images=tuple(pictures.setdefault(png, png) for png in sample.images)))
    return made
