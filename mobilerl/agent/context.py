"""An episode so far -> the chat messages and images of the next model call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from envs.base import Action, Invalid, Observation, Task
from mobilerl.agent.actions import Grounding, describe, split_reply
from mobilerl.agent.defuse import without_tokens
from mobilerl.agent.prompts import DEFAULT_SYSTEM_PROMPTS
from mobilerl.agent.screen import Screen, ScreenStyle
from mobilerl.records import Step

__all__ = ["DEFAULT_SYSTEM_PROMPTS", "ContextPolicy", "Turn", "build_messages", "prompt_hash"]

Layout = Literal["chat", "compact"]
Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier turn of the episode: what the model saw, wrote and did."""

    observation: Observation
    response: str
    thought: str
    action: Action
    summary: str = ""
    """The action in words (`actions.describe`), with which the compact layout tells it."""
    note: str = ""
    """Why the action was not carried out; "" when it was."""

    @classmethod
    def of(cls, step: Step, screen: Screen) -> Turn:
        """`screen` is the parsed screen of the step's observation."""
        done = describe(step.action, screen)
        return cls(step.observation, step.completion.text, step.thought, step.action, done, step.note)


@dataclass(frozen=True, slots=True)
class ContextPolicy:
    """What of an episode goes into a prompt. The defaults are MobileRL's.

    Raises ValueError for settings that contradict each other.
    """

    screenshots: int = 2
    """How many of the newest screenshots are shown, the current one included."""
    history_thoughts: bool = True
    """Whether earlier replies keep their thoughts."""
    history_steps: int | None = None
    """How many earlier turns are told as text; None for all."""
    screen_style: ScreenStyle = "mobilerl"
    grounding: Grounding = "box"
    layout: Layout = "chat"
    system_prompt: str | None = None
    """None for the default: that of the grounding in the chat layout, no system message in the compact one."""

    def __post_init__(self) -> None:
        for name, kind in (("screen_style", ScreenStyle), ("grounding", Grounding), ("layout", Layout)):
            if getattr(self, name) not in get_args(kind):
                raise ValueError(f"context.{name} is {getattr(self, name)!r}; choose one of {get_args(kind)}")
        if self.screenshots < 0 or (self.history_steps or 0) < 0:
            raise ValueError("context.screenshots and context.history_steps must not be negative")
        if self.grounding == "mark" and self.screen_style != "marks":
            raise ValueError('context.grounding = "mark" needs context.screen_style = "marks", which shows the marks')

    @property
    def system(self) -> str:
        """The system prompt in force; "" for none."""
        if self.system_prompt is not None:
            return self.system_prompt
        return DEFAULT_SYSTEM_PROMPTS[self.grounding] if self.layout == "chat" else ""


def prompt_hash(policy: ContextPolicy) -> str:
    """Names a prompt set-up: equal for equal settings, whether the system prompt is the default or spelled out."""
    settings = asdict(policy) | {"system_prompt": policy.system}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def build_messages(
    task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: ContextPolicy
) -> tuple[list[Message], list[bytes]]:
    """Messages in the form of Hugging Face chat templates, and the PNGs of their image parts in order.

    `screen` is the parsed screen of `observation`. Observations without a screenshot get no image part.
    """
    build = _compact if policy.layout == "compact" else _chat
    images: list[bytes] = []
    messages = [_message("system", policy.system)] if policy.system else []
    messages += build(task, history, observation, screen, policy, images)
    return messages, images


def _chat(
    task: Task,
    history: Sequence[Turn],
    observation: Observation,
    screen: Screen,
    policy: ContextPolicy,
    images: list[bytes],
) -> list[Message]:
    """MobileRL's order: earlier turns as text, the last of them again with screenshots, then the current turn.

    The instruction opens the first user turn that is told. A turn shown again names the app of its own screenshot.
    """
    now = len(history)
    first = 0 if policy.history_steps is None else max(0, now - policy.history_steps)

    def user_text(i: int) -> str:
        app = history[i].observation.app if i < now else observation.app
        head = task.instruction if i <= first else "** Screen Info **"
        text = f"{head}\n\n{json.dumps({'current_app': app}, ensure_ascii=False)}"
        if reason := _invalid_reason(history, i):
            return f"{text}\n\n** Your last reply was not understood **\n{reason}"
        note = history[i - 1].note if i else ""
        return f"{text}\n\n(not done: {note})" if note else text

    messages = []
    for i in range(first, now):
        messages += [_message("user", user_text(i)), _message("assistant", _told(history[i], policy))]
    for i in range(max(0, now - policy.screenshots + 1), now):
        messages.append(_message("user", user_text(i), _taken(images, [history[i].observation])))
    shown = _taken(images, [observation] if policy.screenshots else [])
    elements = screen.render(policy.screen_style)
    messages.append(_message("user", f"{user_text(now)}\n\n{elements}" if elements else user_text(now), shown))
    return messages


def _compact(
    task: Task,
    history: Sequence[Turn],
    observation: Observation,
    screen: Screen,
    policy: ContextPolicy,
    images: list[bytes],
) -> list[Message]:
    """One user message for small models: the newest screenshots, then text of which every line ends in a newline.

    The instruction comes last, right before the reply, where a small model finds it most easily.
    """
    told = history if policy.history_steps is None else history[max(0, len(history) - policy.history_steps) :]
    lines = [_line(f"app: {observation.app}"), screen.render(policy.screen_style), "history:\n"]
    lines += [_history_line(turn, policy) for turn in told]
    reason = _invalid_reason(history, len(history))
    if reason:
        lines.append(_line(f"error: {reason}"))
    lines.append(_line(task.instruction))
    seen = [turn.observation for turn in history[max(0, len(history) - policy.screenshots + 1) :]] + [observation]
    return [_message("user", "".join(lines), _taken(images, seen if policy.screenshots else []))]


def _told(turn: Turn, policy: ContextPolicy) -> str:
    """An earlier reply as the model is told it."""
    return turn.response if policy.history_thoughts else f"<answer>{split_reply(turn.response)[1]}</answer>"


def _history_line(turn: Turn, policy: ContextPolicy) -> str:
    """The action in words: marks of an earlier screen mean nothing on this one. Thoughts go before it if kept."""
    thought = turn.thought if policy.history_thoughts else ""
    note = f"(not done: {turn.note})" if turn.note else ""
    return _line(f"{thought} {turn.summary} {note}")


def _invalid_reason(history: Sequence[Turn], i: int) -> str:
    """Why the reply before turn `i` could not be used; "" if it could."""
    action = history[i - 1].action if i else None
    return action.reason if isinstance(action, Invalid) else ""


def _taken(images: list[bytes], observations: Sequence[Observation]) -> int:
    """Adds the screenshots to the prompt's images; returns how many there were."""
    screenshots = [o.screenshot for o in observations if o.screenshot]
    images += screenshots
    return len(screenshots)


def _message(role: str, text: str, images: int = 0) -> Message:
    parts = [{"type": "image"} for _ in range(images)]
    return {"role": role, "content": [*parts, {"type": "text", "text": without_tokens(text)}]}


def _line(text: str) -> str:
    return " ".join(text.split()) + "\n"
