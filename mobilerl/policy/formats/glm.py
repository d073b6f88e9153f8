"""GLM-4.1V and GLM-4.5V: `Memory: ... Reason: ... Action: {"action_type": ...}`.

Sources (Apache License 2.0): zai-org/GLM-V at commit 8fc9756, examples/gui-agent/glm-41v/gui_agent_41v.py and
glm-45v/gui_agent_45v.py for the prompts (`glm_prompts`) and the agents, glmv_reward/scripts/gui_agent/AndroidWorld.py
for what its reward reads. AutoGLM-Phone has its own format.

- Coordinates: boxes [[x1,y1,x2,y2]] in 0-999, touched at their center.
- History: one user message with the newest screenshot and all earlier responses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from mobilerl.envs.base import (
    Action,
    Back,
    Enter,
    Finish,
    Home,
    Launch,
    LongPress,
    Observation,
    Swipe,
    Tap,
    Task,
    Type,
    Wait,
)
from mobilerl.policy.actions import nearest_swipe
from mobilerl.policy.formats.base import (
    BOX_TOKENS,
    INFEASIBLE,
    ActionReader,
    Arguments,
    Chat,
    Coordinates,
    Message,
    Published,
    View,
    ignore_arguments,
    select_screens,
    select_turns,
    split_thought,
    text_of,
)
from mobilerl.policy.formats.glm_prompts import prompt_4_1, prompt_4_5
from mobilerl.policy.grammar import GrammarError
from mobilerl.policy.literals import read_object
from mobilerl.policy.parsing import Response
from mobilerl.policy.sanitize import escape_tokens
from mobilerl.policy.screen import Element, Screen
from mobilerl.policy.turns import PromptSettings, Turn

_IN_BOX = re.compile(r"<\|begin_of_box\|>(?=\s*\{)")
_MARKED = re.compile(r"Action:\s*(?:```\w*\s*)?(?=\{)")
_ALONE = re.compile(r"(?:```\w*\s*)?(?=\{)")
_ACTION = re.compile(r"""["']action_type["']""")
_TAGS = re.compile(rf"{BOX_TOKENS.pattern}|</?answer>")
_PLAIN: dict[str, Action] = {
    "keyboard_enter": Enter(),
    "navigate_home": Home(),
    "navigate_back": Back(),
    "wait": Wait(),
}


def _box(arguments: Arguments) -> Any:
    """`box_2d`: a list of boxes, the first of which counts, or the box itself."""
    boxes: Any = arguments.get("box_2d")
    listed = isinstance(boxes, list) and boxes and isinstance(boxes[0], list) and len(boxes[0]) != 2
    return boxes[0] if listed else boxes


def _input_text(arguments: Arguments, at: View) -> Action:
    """Upstream taps, types and presses Enter in one action. Here, typing into a field without focus only taps it, so
    that the model has to type again."""
    x, y = at.point(_box(arguments))
    field = _find_focused(at.screen)
    ready = field is not None and (field.contains(x, y) or not at.screen.at(x, y))
    return Type(text_of(arguments, "text")) if ready else Tap(x, y)


ACTION_READERS: dict[str, ActionReader] = {
    "click": lambda a, at: Tap(*at.point(_box(a))),
    "long_press": lambda a, at: LongPress(*at.point(_box(a))),
    "input_text": _input_text,
    "swipe": lambda a, at: at.swipe(a.get("direction"), _box(a)),
    "open_app": lambda a, _: Launch(text_of(a, "app_name")),
    "answer": lambda a, _: Finish(text_of(a, "text")),
    "status": lambda a, _: Finish(INFEASIBLE if a.get("goal_status") == "infeasible" else ""),
    **{name: ignore_arguments(action) for name, action in _PLAIN.items()},
}


class GLM(Published):
    coordinates = Coordinates(999)
    readers = ACTION_READERS
    settings = {"screenshots": 1, "max_new_tokens": 4096}
    prompt: Callable[[str, str], str] = staticmethod(prompt_4_1)
    """Makes the prompt of the instruction and the history."""

    def build(
        self, task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: PromptSettings
    ) -> tuple[list[Message], list[bytes]]:
        chat = Chat()
        if policy.system_prompt:
            chat.add("system", policy.system_prompt)
        turns = select_turns(history, policy)
        first = len(history) - len(turns)
        done = "".join(f"Step {first + i}:\n{self.render_turn(turn, policy)}\n\n" for i, turn in enumerate(turns))
        done = done or "You just started, no action has been performed yet."
        chat.add("user", *select_screens(observation, policy), self.prompt(escape_tokens(task.instruction), done))
        return chat.messages, chat.images

    def write_recorded(self, turn: Turn, policy: PromptSettings) -> str:
        return _TAGS.sub("", split_thought(Published.write_recorded(self, turn, policy))[1]).strip()

    def read(self, text: str, screen: Screen, policy: PromptSettings) -> Response:
        thought, rest = split_thought(text)
        before, code = _split(rest)
        try:
            arguments, end = read_object(code)
        except GrammarError:
            raise GrammarError("the action is not valid JSON") from None
        if _ACTION.search(code, end):
            raise GrammarError("there is more than one action")
        action = self.action(text_of(arguments, "action_type"), arguments, screen, policy)
        return Response(thought or before, action)

    def render(self, action: Action, screen: Screen, policy: PromptSettings, thought: str | None = None) -> str:
        code = json.dumps(self.arguments(action, screen, policy), ensure_ascii=False)
        return f"Memory: \nReason: {thought or ''}\nAction: {code}"

    def arguments(self, action: Action, screen: Screen, policy: PromptSettings) -> dict[str, Any]:
        """Arguments of an action; a swipe becomes the nearest of four directions. Raises ValueError if it has none."""

        def box(x: int, y: int) -> list[list[int]]:
            return [self.write_point(x, y, screen, policy) * 2]

        match action:
            case Tap(x, y):
                return {"action_type": "click", "box_2d": box(x, y)}
            case LongPress(x, y):
                return {"action_type": "long_press", "box_2d": box(x, y)}
            case Type(text):
                if (at := _find_focused(screen)) is None:
                    raise ValueError("no field has the focus, and the action names one")
                return {"action_type": "input_text", "text": text, "box_2d": box(*at.centre), "override": True}
            case Swipe(x, y):
                direction = nearest_swipe(action, screen.width, screen.height)[0]
                return {"action_type": "swipe", "direction": direction, "box_2d": box(x, y)}
            case Launch(app):
                return {"action_type": "open_app", "app_name": app}
            case Finish(message) if message not in ("", INFEASIBLE):
                return {"action_type": "answer", "text": message}
            case Finish(message):
                return {"action_type": "status", "goal_status": message or "complete"}
        name = next((name for name, plain in _PLAIN.items() if plain.kind == action.kind), None)
        if name is None:
            raise ValueError(f"{action} has no written form")
        return {"action_type": name}


class GLM45(GLM):
    prompt = staticmethod(prompt_4_5)


def _split(text: str) -> tuple[str, str]:
    """Splits a response into what comes before its action, and the text from the action's JSON object on.

    It is the one in the first box, as in the published reward, or behind "Action:", as in the published agent.
    """
    if boxed := _IN_BOX.search(text):
        inside, _, _ = text[boxed.end() :].partition("<|end_of_box|>")
        return _TAGS.sub("", text[: boxed.start()]).strip().removesuffix("Action:").strip(), inside.lstrip()
    text = _TAGS.sub("", text).strip()
    if found := _MARKED.search(text) or _ALONE.match(text):
        return text[: found.start()].strip(), text[found.end() :]
    before, marked, rest = text.partition("Action:")
    if not marked or "{" not in rest:
        raise GrammarError('there is no line "Action:" with a JSON object')
    return before.strip(), rest[rest.index("{") :]


def _find_focused(screen: Screen) -> Element | None:
    return next((e for e in screen.elements if "edit" in e.actions and "focused" in e.states), None)
