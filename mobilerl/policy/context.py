"""An episode so far -> the chat messages and images of the next model call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

from envs.base import Action, Observation, Task
from mobilerl.config import AgentSection, FormatName
from mobilerl.policy.actions import Grounding, describe
from mobilerl.policy.formats import FORMATS
from mobilerl.policy.formats.base import Message
from mobilerl.policy.parsing import Reply
from mobilerl.policy.prompts import DEFAULT_SYSTEM_PROMPTS
from mobilerl.policy.screen import Screen, ScreenStyle
from mobilerl.records import Step

Layout = Literal["chat", "compact"]
SizeSeen = Callable[[int, int], tuple[int, int]]
"""Width and height of a screenshot -> height and width at which the model sees it."""


_TASK, _SEEN = Task("", "", "", {}, 0, 1, ""), Observation(b"", 1080, 2400, "", "", 0)
"""What a published format's prompt is built for, to tell its words from others."""


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier turn of the episode: observation, reply and action."""

    observation: Observation
    response: str
    thought: str
    action: Action
    summary: str = ""
    """The action in words (`actions.describe`), shown by the compact layout."""
    note: str = ""
    """Why the action was not carried out; "" when it was."""

    @classmethod
    def of(cls, step: Step, screen: Screen) -> Turn:
        """`screen` is the parsed screen of the step's observation."""
        done = describe(step.action, screen)
        return cls(step.observation, step.completion.text, step.thought, step.action, done, step.note)


@dataclass(frozen=True, slots=True)
class ContextPolicy:
    """Which parts of an episode go into a prompt. The defaults are MobileRL's."""

    screenshots: int = 2
    """Number of newest screenshots shown, the current one included."""
    history_thoughts: bool = True
    """Keep the thoughts of earlier replies."""
    history_steps: int | None = None
    """Number of earlier turns shown as text; None for all."""
    screen_style: ScreenStyle = "mobilerl"
    grounding: Grounding = "box"
    layout: Layout = "chat"
    system_prompt: str | None = None
    """None for the default: the grounding's in the chat layout, no system message in the compact layout."""
    format: FormatName = "mobilerl"
    """The fields above from `screen_style` to `layout`, and `history_thoughts`, belong to `mobilerl` alone."""
    size_seen: SizeSeen | None = field(default=None, compare=False)
    """For formats whose coordinates are pixels; None for the published image processor's size."""

    @property
    def system(self) -> str:
        """The effective system prompt of mobilerl's format; "" for none."""
        if self.system_prompt is not None:
            return self.system_prompt
        return DEFAULT_SYSTEM_PROMPTS[self.grounding] if self.layout == "chat" else ""

    @property
    def stop(self) -> tuple[str, ...]:
        """Texts that end a reply."""
        return FORMATS[self.format].stop

    def parse(self, text: str, screen: Screen) -> Reply:
        """Reads a reply to a prompt that showed `screen`. Never raises: bad text gives `Invalid(reason)`."""
        return FORMATS[self.format].parse(text, screen, self)

    def reply(self, action: Action, screen: Screen, thought: str | None = None) -> str:
        """The reply that `parse` reads as `action`. Raises ValueError if there is none."""
        return FORMATS[self.format].render(action, screen, self, thought)


def prompt_hash(policy: ContextPolicy) -> str:
    """Identifies a prompt set-up: equal for equal settings, whether the system prompt is the default or given."""
    settings = {f.name: getattr(policy, f.name) for f in fields(policy) if f.compare}
    if policy.format == "mobilerl":
        del settings["format"]  # as before there were others
        settings["system_prompt"] = policy.system
    else:
        settings["system_prompt"] = build_messages(_TASK, (), _SEEN, Screen((), 1080, 2400), policy)[0]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def build_messages(
    task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: ContextPolicy
) -> tuple[list[Message], list[bytes]]:
    """Messages in the form of Hugging Face chat templates, and the PNGs of their image parts in order.

    `screen` is the parsed screen of `observation`. Observations without a screenshot get no image part.
    """
    return FORMATS[policy.format].build(task, history, observation, screen, policy)


def make_context(agent: AgentSection, size_seen: SizeSeen | None = None) -> ContextPolicy:
    """`size_seen`: as in `ContextPolicy`, where the model is known."""
    settings = agent.model_dump(exclude={"format", "random_marks", "max_new_tokens", "max_invalid", "deadline_s"})
    return ContextPolicy(**settings, format=agent.format or "mobilerl", size_seen=size_seen)
