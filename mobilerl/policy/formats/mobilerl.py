"""mobilerl's own format: MobileRL's chat layout and a compact one, box, point or mark grounding, `<answer>do(...)`.

The system prompts are in `mobilerl.policy.prompts`, the actions in `mobilerl.policy.actions` and the parser of
responses in `mobilerl.policy.parsing`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mobilerl.envs.base import Action, Invalid, Observation, Task
from mobilerl.policy.actions import format_response
from mobilerl.policy.formats.base import Message
from mobilerl.policy.parsing import Response, parse_response, split_response
from mobilerl.policy.sanitize import escape_tokens
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import PromptSettings, Turn
from mobilerl.records.engine import ANSWER_END

_MARK = re.compile("<[0-9]+>")


class MobileRLFormat:
    """The format in which mobilerl trains by default."""

    settings: Mapping[str, Any] = {}
    stop: tuple[str, ...] = (ANSWER_END,)
    most_equal: int | None = None
    tells_problems = True
    """Whether the model is told about responses that could not be parsed and actions that were not carried out."""
    repeats_own_app = True
    """Whether a repeated user turn names the app of its own screenshot or the current one."""

    def build(
        self, task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: PromptSettings
    ) -> tuple[list[Message], list[bytes]]:
        build = _compact if policy.layout == "compact" else self._chat
        images: list[bytes] = []
        messages = [_message("system", policy.system)] if policy.system else []
        messages += build(task, history, observation, screen, policy, images)
        return messages, images

    def parse(self, text: str, screen: Screen, policy: PromptSettings) -> Response:
        return parse_response(text, screen, policy.grounding, screen.width, screen.height)

    def render(self, action: Action, screen: Screen, policy: PromptSettings, thought: str | None = None) -> str:
        return format_response(action, screen, policy.grounding, thought)

    def _chat(
        self,
        task: Task,
        history: Sequence[Turn],
        observation: Observation,
        screen: Screen,
        policy: PromptSettings,
        images: list[bytes],
    ) -> list[Message]:
        """Messages in MobileRL's order: earlier turns as text, the last of them again with screenshots, the current
        turn. The instruction opens the first user turn."""
        now = len(history)
        first = 0 if policy.history_steps is None else max(0, now - policy.history_steps)

        def user_text(i: int, seen: Observation) -> str:
            head = task.instruction if i <= first else "** Screen Info **"
            text = f"{head}\n\n{json.dumps({'current_app': seen.app}, ensure_ascii=False)}"
            return text + _problem(history, i) if self.tells_problems else text

        messages = []
        for i, turn in enumerate(history[first:], first):
            said = _message("assistant", _shown_response(turn, policy))
            messages += [_message("user", user_text(i, turn.observation)), said]
        for i in range(max(0, now - policy.screenshots + 1), now):
            seen = history[i].observation
            named = seen if self.repeats_own_app else observation
            messages.append(_message("user", user_text(i, named), _add_images(images, [seen])))
        shown = _add_images(images, [observation] if policy.screenshots else [])
        elements = screen.render(policy.screen_style)
        last = user_text(now, observation)
        messages.append(_message("user", f"{last}\n\n{elements}" if elements else last, shown))
        return messages


def _compact(
    task: Task,
    history: Sequence[Turn],
    observation: Observation,
    screen: Screen,
    policy: PromptSettings,
    images: list[bytes],
) -> list[Message]:
    """One user message for small models: the newest screenshots, followed by text.

    The instruction comes first, so that every line of the screen can attend to it, and again last, right before the
    response, where a small model finds it most easily.
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


def _problem(history: Sequence[Turn], i: int) -> str:
    """What the user turn `i` says about the response before it."""
    if reason := _invalid_reason(history, i):
        return f"\n\n** Your last reply was not understood **\n{reason}"
    note = history[i - 1].note if i else ""
    return f"\n\n(not done: {note})" if note else ""


def _shown_response(turn: Turn, policy: PromptSettings) -> str:
    """An earlier response as shown in the prompt."""
    return turn.response if policy.history_thoughts else f"<answer>{split_response(turn.response)[1]}</answer>"


def _history_line(turn: Turn, policy: PromptSettings) -> str:
    """History line of a turn: its thought if it has one and thoughts are kept, else its action in words.

    Marks are removed, since those of an earlier screen are meaningless on the current one.
    """
    thought = _MARK.sub("", turn.thought) if policy.history_thoughts else ""
    note = f"(not done: {turn.note})" if turn.note else ""
    return _line(f"{thought or turn.summary} {note}")


def _invalid_reason(history: Sequence[Turn], i: int) -> str:
    """Why the response before turn `i` could not be parsed; "" if it could."""
    action = history[i - 1].action if i else None
    return action.reason if isinstance(action, Invalid) else ""


def _add_images(images: list[bytes], observations: Sequence[Observation]) -> int:
    """Appends the screenshots to the images of the prompt and returns their number."""
    screenshots = [o.screenshot for o in observations if o.screenshot]
    images += screenshots
    return len(screenshots)


def _message(role: str, text: str, images: int = 0) -> Message:
    parts = [{"type": "image"} for _ in range(images)]
    return {"role": role, "content": [*parts, {"type": "text", "text": escape_tokens(text)}]}


def _line(text: str) -> str:
    return " ".join(text.split()) + "\n"
