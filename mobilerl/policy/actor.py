"""Actors, which decide on the actions of an episode: a model with its prompt and parser, or a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mobilerl.envs.base import Action, Invalid, Observation, Task
from mobilerl.policy.context import ContextPolicy, build_messages
from mobilerl.policy.formats.base import Message
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import Turn
from mobilerl.policy.unreadable import Why, explain_unreadable
from mobilerl.records import Completion
from mobilerl.records.engine import Sampling

Messages = Sequence[dict[str, Any]]
Fits = Callable[[Messages, Sequence[bytes]], bool]


class Policy(Protocol):
    """Maps chat messages and screenshots to a completion. Raises only if the model cannot be reached."""

    async def act(self, messages: Messages, images: Sequence[bytes], sampling: Sampling, key: str = "") -> Completion:
        """Returns a completion. `key` names the episode; requests are ordered by it, so that batches are repeatable."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision of an actor, with everything needed to train on it."""

    action: Action
    thought: str
    completion: Completion
    images: tuple[bytes, ...] = ()


class Actor(Protocol):
    """Decides on the actions of any number of episodes; `key` names the episode."""

    async def decide(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen, key: str
    ) -> Decision: ...


class ModelActor:
    """An actor that prompts a policy and parses its responses.

    `fits` says whether a prompt is short enough for the policy. If it is not, the history is shortened; if even the
    screen alone is too long, the action is Invalid and the model is not called.
    """

    def __init__(self, policy: Policy, context: ContextPolicy, sampling: Sampling, fits: Fits | None = None) -> None:
        self.policy, self.context, self.sampling, self.fits = policy, context, sampling, fits

    async def decide(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen, key: str
    ) -> Decision:
        prompt = await self._prompt(task, turns, observation, screen)
        if prompt is None:
            return make_decision(Invalid("the screen does not fit into the prompt", why=Why.PROMPT_TOO_LONG))
        messages, images = prompt
        completion = await self.policy.act(messages, images, self.sampling, key)
        response = self.context.parse(completion.text, screen)
        action = explain_unreadable(response.action, completion, self.sampling.max_new_tokens)
        return Decision(action, response.thought, completion, tuple(images))

    async def _prompt(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen
    ) -> tuple[list[Message], list[bytes]] | None:
        """Messages and images with as much of the history as fits; None if not even the screen fits."""
        shown = len(turns) if self.context.history_steps is None else min(len(turns), self.context.history_steps)
        context = self.context
        while True:
            prompt = build_messages(task, turns, observation, screen, context)
            if self.fits is None or await asyncio.to_thread(self.fits, *prompt):
                return prompt
            if not shown:
                return None
            shown //= 2
            context = replace(context, history_steps=shown, screenshots=min(context.screenshots, shown + 1))


def make_decision(action: Action, text: str = "") -> Decision:
    """A decision made without a model."""
    return Decision(action, "", Completion((), (), (), 0, text))
