"""GLM-4.1V, GLM-4.5V and GLM-4.6V: `Memory: ... Reason: ... Action: {"action_type": ...}`.

Source (Apache License 2.0): zai-org/GLM-V, examples/gui-agent/glm-41v/gui_agent_41v.py (get_mobile_prompt) at commit
8fc9756, without the part that lists AndroidWorld's apps. AutoGLM-Phone has its own format.

- Coordinates: boxes [[x1,y1,x2,y2]] in 0-999, touched at their center.
- History: one user message with all earlier replies and the newest screenshot.
"""

# ruff: noqa: E501

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from envs.base import Action, Back, Enter, Finish, Home, Launch, LongPress, Observation, Swipe, Tap, Task, Type, Wait
from mobilerl.policy.actions import nearest_swipe
from mobilerl.policy.formats.base import (
    INFEASIBLE,
    Arguments,
    Chat,
    Coordinates,
    Meaning,
    Message,
    Published,
    View,
    does,
    shown,
    split_thought,
    text_of,
    told,
)
from mobilerl.policy.grammar import GrammarError
from mobilerl.policy.parsing import Reply
from mobilerl.policy.sanitize import escape_tokens
from mobilerl.policy.screen import Element, Screen

if TYPE_CHECKING:
    from mobilerl.policy.context import ContextPolicy, Turn

_BEGIN = """\
You are an agent who can operate an Android phone on behalf of a user. Based on user's goal/request, you may
- Answer back if the request/goal is a question (or a chat message), like user asks "What is my schedule for today?".
- Complete some tasks described in the requests/goals by performing actions (step by step) on the phone.

When given a user request, you will try to complete it step by step. At each step, you will be given the current screenshot (including the original screenshot and the same screenshot with bounding boxes and numeric indexes added to some UI elements) and a history of what you have done (in text). Based on these pieces of information and the goal, you must choose to perform one of the action in the following list (action description followed by the JSON format) by outputting the action in the correct JSON format.
- If you think the task has been completed, finish the task by using the status action with complete as goal_status: `{"action_type": "status", "goal_status": "complete"}`
- If you think the task is not feasible (including cases like you don't have enough information or can not perform some necessary actions), finish by using the `status` action with infeasible as goal_status: `{"action_type": "status", "goal_status": "infeasible"}`
- Answer user's question: `{"action_type": "answer", "text": "<answer_text>"}`
-- You should only answer once in one command. If you needs multiple pieces of information to answer the question, you should gather the information in "Memory" and answer the question when you have enough information.
- Click/tap on an element on the screen. Use the box_2d to indicate which element you want to click: `{"action_type": "click", "box_2d": [[,,,]]}`. The box_2d should be [[xmin,ymin,xmax,ymax]] normalized to 0-999, indicating the position of the element.
- Long press on an element on the screen, similar with the click action above, use the box_2d to indicate which element you want to long press: `{"action_type": "long_press", "box_2d": [[,,,]]}`.
- Type text into a text field (this action contains clicking the text field, typing in the text and pressing the enter, so no need to click on the target field to start), use the box_2d to indicate the target text field. The text to be input can be from the command, the memory, or the current screen: `{"action_type": "input_text", "text": <text_input>, "box_2d": [[,,,]], 'override': True/False}`. If override is True, the text field will be cleared before typing.
- Press the Enter key: `{"action_type": "keyboard_enter"}`
- Navigate to the home screen: `{"action_type": "navigate_home"}`
- Navigate back: `{"action_type": "navigate_back"}`
- Swipe the screen or a scrollable UI element in one of the four directions, use the box_2d as above if you want to swipe a specific UI element, leave it empty when swipe the whole screen: `{"action_type": "swipe", "direction": <up, down, left, right>, "box_2d": [[,,,]](optional)}`. 
- Open an app (nothing will happen if the app is not installed): `{"action_type": "open_app", "app_name": <name>}`
- Wait for the screen to update: `{"action_type": "wait"}`

The current user goal/request is: """

_HISTORY = "\n\nHere is a history of what you have done so far:\n"

_END = """\
The current screenshot is given to you. 
Here are some useful guidelines you need to follow:
General:
- Usually there will be multiple ways to complete a task, pick the easiest one. Also when something does not work as expected (due to various reasons), sometimes a simple retry can solve the problem, but if it doesn't (you can see that from the history), SWITCH to other solutions.
- Sometimes you may need to navigate the phone to gather information needed to complete the task, for example if user asks "what is my schedule tomorrow", then you may want to open the calendar app (using the `open_app` action), look up information there, answer user's question (using the `answer` action) and finish (using the `status` action with complete as goal_status).
- For requests that are questions (or chat messages), remember to use the `answer` action to reply to user explicitly before finish! Merely displaying the answer on the screen is NOT sufficient (unless the goal is something like "show me ...").
- If the desired state is already achieved (e.g., enabling Wi-Fi when it's already on), you can just complete the task.
- If we say that two items are duplicated, in most cases we require that all of their attributes are exactly the same, not just the name.
Text Related Operations:
- Normally to select certain text on the screen: <i> Enter text selection mode by long pressing the area where the text is, then some of the words near the long press point will be selected (highlighted with two pointers indicating the range) and usually a text selection bar will also appear with options like `copy`, `paste`, `select all`, etc. <ii> Select the exact text you need. Usually the text selected from the previous step is NOT the one you want, you need to adjust the range by dragging the two pointers. If you want to select all text in the text field, simply click the `select all` button in the bar.
- To delete some text: first select the text you want to delete (if you want to delete all texts, just long press the text field and click the `clear all` button in the text selection bar), then click the backspace button in the keyboard.
- To copy some text: first select the exact text you want to copy, which usually also brings up the text selection bar, then click the `copy` button in bar.
- To paste text into a text box, first long press the text box, then usually the text selection bar will appear with a `paste` button in it.
- When typing into a text field, sometimes an auto-complete dropdown list will appear. This usually indicating this is a enum field and you should try to select the best match by clicking the corresponding one in the list.
Action Related:
- Use the `input_text` action whenever you want to type something (including password) instead of clicking characters on the keyboard one by one. Sometimes there is some default text in the text field you want to type in, remember to delete them before typing.
- Consider exploring the screen by using the `swipe` action with different directions to reveal additional content.
- The direction parameter for the `swipe` action can be confusing sometimes as it's opposite to swipe, for example, to view content at the bottom, the `swipe` direction should be set to "up". It has been observed that you have difficulties in choosing the correct direction, so if one does not work, try the opposite as well.
- To open an app if you can not find its icon, you can first press home (if necessary) and swipe up to the app drawer.
- Swipe up means swiping from bottom to top, swipe down means swiping from top to bottom, swipe left means swiping from right to left, swipe right means swiping from left to right.
- Use the `navigate_back` action to close/hide the soft keyboard.

Now output: 
1. Memory: important information you want to remember for the future actions. The memory should be only contents on the screen that will be used in the future actions. It should satisfy that: you cannot determine one or more future actions without this memory. 
2. Reason: the reason for the action and the memory. Your reason should include, but not limited to:- the content of the GUI, especially elements that are tightly related to the user goal- the step-by-step thinking process of how you come up with the new action. 
3. Action: the action you want to take, in the correct JSON format. The action should be one of the above list.

Your answer should look like:
Memory: ...
Reason: ...
Action: {"action_type":...}"""

_BOXED = re.compile(r"<\|(?:begin|end)_of_box\|>|</?answer>")
_PLAIN: dict[str, Action] = {
    "keyboard_enter": Enter(),
    "navigate_home": Home(),
    "navigate_back": Back(),
    "wait": Wait(),
}


def _box(arguments: Arguments) -> Any:
    """`box_2d`: a list of one box, or the box itself."""
    boxes = arguments.get("box_2d")
    return boxes[0] if isinstance(boxes, list) and len(boxes) == 1 else boxes


def _input_text(arguments: Arguments, at: View) -> Action:
    """Upstream taps, types and presses Enter in one action. Here, typing into a field without focus only taps it, so
    that the model has to type again."""
    x, y = at.point(_box(arguments))
    field = _focused(at.screen)
    ready = field is not None and (field.contains(x, y) or not at.screen.at(x, y))
    return Type(text_of(arguments, "text")) if ready else Tap(x, y)


MEANING: dict[str, Meaning] = {
    "click": lambda a, at: Tap(*at.point(_box(a))),
    "long_press": lambda a, at: LongPress(*at.point(_box(a))),
    "input_text": _input_text,
    "swipe": lambda a, at: at.swipe(a.get("direction"), _box(a)),
    "open_app": lambda a, _: Launch(text_of(a, "app_name")),
    "answer": lambda a, _: Finish(text_of(a, "text")),
    "status": lambda a, _: Finish(INFEASIBLE if a.get("goal_status") == "infeasible" else ""),
    **{name: does(action) for name, action in _PLAIN.items()},
}


class GLM(Published):
    coordinates = Coordinates(999)
    meaning = MEANING
    settings = {"screenshots": 1, "max_new_tokens": 4096}

    def build(
        self, task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: ContextPolicy
    ) -> tuple[list[Message], list[bytes]]:
        chat = Chat()
        if policy.system_prompt:
            chat.add("system", policy.system_prompt)
        turns = told(history, policy)
        first = len(history) - len(turns)
        done = "".join(f"Step {first + i}:\n{self.said(turn, policy)}\n\n" for i, turn in enumerate(turns))
        done = done or "You just started, no action has been performed yet."
        asked = f"{_BEGIN}{escape_tokens(task.instruction)}{_HISTORY}{done}\n{_END}"
        chat.add("user", asked, *shown(observation, policy))
        return chat.messages, chat.images

    def reply_of(self, turn: Turn, policy: ContextPolicy) -> str:
        return _BOXED.sub("", split_thought(Published.reply_of(self, turn, policy))[1]).strip()

    def read(self, text: str, screen: Screen, policy: ContextPolicy) -> Reply:
        thought, rest = split_thought(text)
        before, marked, code = _BOXED.sub("", rest).rpartition("Action:")
        if not marked or "{" not in code:
            raise GrammarError('there is no line "Action:" with a JSON object')
        try:
            arguments, _ = json.JSONDecoder().raw_decode(code[code.index("{") :])
        except (ValueError, RecursionError):
            raise GrammarError("the action is not valid JSON") from None
        action = self.action(text_of(arguments, "action_type"), arguments, screen, policy)
        return Reply(thought or before.strip(), action)

    def render(self, action: Action, screen: Screen, policy: ContextPolicy, thought: str | None = None) -> str:
        code = json.dumps(self.arguments(action, screen, policy), ensure_ascii=False)
        return f"Memory: \nReason: {thought or ''}\nAction: {code}"

    def arguments(self, action: Action, screen: Screen, policy: ContextPolicy) -> dict[str, Any]:
        """Arguments of an action; a swipe becomes the nearest of four directions. Raises ValueError if it has none."""

        def box(x: int, y: int) -> list[list[int]]:
            return [self.written(x, y, screen, policy) * 2]

        match action:
            case Tap(x, y):
                return {"action_type": "click", "box_2d": box(x, y)}
            case LongPress(x, y):
                return {"action_type": "long_press", "box_2d": box(x, y)}
            case Type(text):
                if (at := _focused(screen)) is None:
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


def _focused(screen: Screen) -> Element | None:
    return next((e for e in screen.elements if "edit" in e.actions and "focused" in e.states), None)
