"""What a prompt is built from: the settings of prompts, and the earlier turns of the episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from mobilerl.config import FormatName
from mobilerl.envs.base import Action, Observation
from mobilerl.policy.actions import Grounding, describe
from mobilerl.policy.prompts import DEFAULT_SYSTEM_PROMPTS
from mobilerl.policy.screen import Screen, ScreenStyle
from mobilerl.records import Step

Layout = Literal["chat", "compact"]
SizeSeen = Callable[[int, int], tuple[int, int]]
"""Maps width and height of a screenshot to the height and width at which the model sees it."""


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
class PromptSettings:
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
