"""Builds the chat messages and images of the next model call from an episode so far."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

from mobilerl.config import AgentSection, FormatName
from mobilerl.envs.base import Action, Observation, Task
from mobilerl.policy.actions import Grounding, describe
from mobilerl.policy.formats import FORMATS
from mobilerl.policy.formats.base import Message
from mobilerl.policy.parsing import Response
from mobilerl.policy.prompts import DEFAULT_SYSTEM_PROMPTS
from mobilerl.policy.screen import Screen, ScreenStyle
from mobilerl.records import Step

Layout = Literal["chat", "compact"]
SizeSeen = Callable[[int, int], tuple[int, int]]
"""Maps width and height of a screenshot to the height and width at which the model sees it."""


_TASK, _SEEN = Task("", "", "", {}, 0, 1, ""), Observation(b"", 1080, 2400, "", "", 0)
"""Dummy task and observation whose prompt identifies the wording of a published format."""


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier turn of the episode: observation, response and action."""

    observation: Observation
    response: str
    thought: str
    action: Action
    summary: str = ""
    """Description of the action (`actions.describe`), shown in the compact layout."""
    note: str = ""
    """Why the action was not carried out; "" if it was."""

    @classmethod
    def of(cls, step: Step, screen: Screen) -> Turn:
        """Makes the turn of a step; `screen` is the parsed screen of its observation."""
        done = describe(step.action, screen)
        return cls(step.observation, step.completion.text, step.thought, step.action, done, step.note)


@dataclass(frozen=True, slots=True)
class ContextPolicy:
    """Which parts of an episode a prompt contains. The defaults are those of MobileRL."""

    screenshots: int = 2
    """Number of newest screenshots shown, the current one included."""
    history_thoughts: bool = True
    """Whether to keep the thoughts of earlier responses."""
    history_steps: int | None = None
    """Number of earlier turns shown as text; None for all."""
    screen_style: ScreenStyle = "mobilerl"
    grounding: Grounding = "box"
    layout: Layout = "chat"
    system_prompt: str | None = None
    """None for the default, which depends on the grounding in the chat layout and is empty in the compact layout."""
    format: FormatName = "mobilerl"
    """Action format. `history_thoughts` and the fields from `screen_style` to `layout` apply only to `mobilerl`."""
    size_seen: SizeSeen | None = field(default=None, compare=False)
    """Used by formats with pixel coordinates; None assumes the published image processor."""

    @property
    def system(self) -> str:
        """Effective system prompt of mobilerl's format; "" for none."""
        if self.system_prompt is not None:
            return self.system_prompt
        return DEFAULT_SYSTEM_PROMPTS[self.grounding] if self.layout == "chat" else ""

    @property
    def stop(self) -> tuple[str, ...]:
        """Stop strings of a response."""
        return FORMATS[self.format].stop

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
