"""An episode so far -> the chat messages and images of the next model call."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from envs.base import Action, Invalid, Observation, Task
from mobilerl.config import AgentSection
from mobilerl.policy.actions import Grounding, describe
from mobilerl.policy.parsing import split_reply
from mobilerl.policy.prompts import DEFAULT_SYSTEM_PROMPTS
from mobilerl.policy.sanitize import escape_tokens
from mobilerl.policy.screen import Screen, ScreenStyle
from mobilerl.records import Step

Layout = Literal["chat", "compact"]
Message = dict[str, Any]
_MARK = re.compile("<[0-9]+>")


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

    @property
    def system(self) -> str:
        """The effective system prompt; "" for none."""
        if self.system_prompt is not None:
            return self.system_prompt
        return DEFAULT_SYSTEM_PROMPTS[self.grounding] if self.layout == "chat" else ""


def prompt_hash(policy: ContextPolicy) -> str:
    """Identifies a prompt set-up: equal for equal settings, whether the system prompt is the default or given."""
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

    The instruction opens the first user turn. A turn shown again names the app of its own screenshot.
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
        messages += [_message("user", user_text(i)), _message("assistant", _shown_reply(history[i], policy))]
    for i in range(max(0, now - policy.screenshots + 1), now):
        messages.append(_message("user", user_text(i), _add_images(images, [history[i].observation])))
    shown = _add_images(images, [observation] if policy.screenshots else [])
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
    """One user message for small models: the newest screenshots, then text.

    The instruction comes first, so that every line of the screen can be read with it in mind, and again last, right
    before the reply, where a small model finds it most easily.
    """
    told = history if policy.history_steps is None else history[max(0, len(history) - policy.history_steps) :]
    goal = _line(task.instruction)
    lines = [goal, _line(f"app: {observation.app}"), screen.render(policy.screen_style), "history:\n"]
    lines += [_history_line(turn, policy) for turn in told]
    reason = _invalid_reason(history, len(history))
    if reason:
        lines.append(_line(f"error: {reason}"))
    lines.append(goal)
    seen = [turn.observation for turn in history[max(0, len(history) - policy.screenshots + 1) :]] + [observation]
    return [_message("user", "".join(lines), _add_images(images, seen if policy.screenshots else []))]


def _shown_reply(turn: Turn, policy: ContextPolicy) -> str:
    """An earlier reply as the prompt shows it."""
    return turn.response if policy.history_thoughts else f"<answer>{split_reply(turn.response)[1]}</answer>"


def _history_line(turn: Turn, policy: ContextPolicy) -> str:
    """The turn's thought if thoughts are kept and it had one, else its action in words.

    Marks of an earlier screen mean nothing on this one.
    """
    thought = _MARK.sub("", turn.thought) if policy.history_thoughts else ""
    note = f"(not done: {turn.note})" if turn.note else ""
    return _line(f"{thought or turn.summary} {note}")


def _invalid_reason(history: Sequence[Turn], i: int) -> str:
    """Why the reply before turn `i` could not be parsed; "" if it could."""
    action = history[i - 1].action if i else None
    return action.reason if isinstance(action, Invalid) else ""


def _add_images(images: list[bytes], observations: Sequence[Observation]) -> int:
    """Appends the screenshots to the prompt's images; returns their number."""
    screenshots = [o.screenshot for o in observations if o.screenshot]
    images += screenshots
    return len(screenshots)


def _message(role: str, text: str, images: int = 0) -> Message:
    parts = [{"type": "image"} for _ in range(images)]
    return {"role": role, "content": [*parts, {"type": "text", "text": escape_tokens(text)}]}


def _line(text: str) -> str:
    return " ".join(text.split()) + "\n"


def make_context(agent: AgentSection) -> ContextPolicy:
    return ContextPolicy(**agent.model_dump(exclude={"random_marks", "max_new_tokens", "max_invalid", "deadline_s"}))
