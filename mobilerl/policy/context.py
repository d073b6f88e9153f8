"""Builds the chat messages and images of the next model call from an episode so far."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields

from mobilerl.config import AgentSection
from mobilerl.envs.base import Action, Observation, Task
from mobilerl.policy.formats import FORMATS
from mobilerl.policy.formats.base import Message
from mobilerl.policy.formats.mobilerl import MobileRLFormat
from mobilerl.policy.parsing import Response
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import PromptSettings, SizeSeen, Turn

_TASK, _SEEN = Task("", "", "", {}, 0, 1, ""), Observation(b"", 1080, 2400, "", "", 0)
"""Dummy task and observation whose prompt identifies the wording of a published format."""


@dataclass(frozen=True, slots=True)
class ContextPolicy(PromptSettings):
    """The settings of prompts, with the stop strings, the parser and the writer of the chosen format."""

    @property
    def stop(self) -> tuple[str, ...]:
        """Stop strings of a response."""
        return FORMATS[self.format].stop

    @property
    def most_equal(self) -> int | None:
        """As in `Format`."""
        return FORMATS[self.format].most_equal

    @property
    def names_elements(self) -> bool:
        """Whether touches are written as elements of the screen that they were on, rather than as points."""
        return isinstance(FORMATS[self.format], MobileRLFormat)

    def parse(self, text: str, screen: Screen) -> Response:
        """Parses a response to a prompt that showed `screen`. Never raises: bad text gives `Invalid(reason)`."""
        return FORMATS[self.format].parse(text, screen, self)

    def write_response(self, action: Action, screen: Screen, thought: str | None = None) -> str:
        """Writes the response that `parse` reads as `action`. Raises ValueError if there is none."""
        return FORMATS[self.format].render(action, screen, self, thought)


def prompt_hash(policy: ContextPolicy) -> str:
    """Hash of the prompt settings, which is the same whether the default system prompt is set explicitly or not."""
    settings = {f.name: getattr(policy, f.name) for f in fields(policy) if f.compare}
    if policy.format == "mobilerl":
        del settings["format"]  # so that hashes are the same as before there were other formats
        settings["system_prompt"] = policy.system
    else:
        settings["system_prompt"] = build_messages(_TASK, (), _SEEN, Screen((), 1080, 2400), policy)[0]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def build_messages(
    task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: ContextPolicy
) -> tuple[list[Message], list[bytes]]:
    """Builds messages for a Hugging Face chat template, and returns them with the PNGs of their image parts in order.

    `screen` is the parsed screen of `observation`. Observations without a screenshot get no image part.
    """
    return FORMATS[policy.format].build(task, history, observation, screen, policy)


def make_context(agent: AgentSection, size_seen: SizeSeen | None = None) -> ContextPolicy:
    """Makes the context policy of the agent settings. `size_seen` is as in `ContextPolicy`, if the model is known."""
    settings = agent.model_dump(exclude={"format", "random_marks", "max_new_tokens", "max_invalid", "deadline_s"})
    return ContextPolicy(**settings, format=agent.format or "mobilerl", size_seen=size_seen)
