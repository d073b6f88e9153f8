"""The tool `mobile_use` of Qwen2.5-VL, Qwen3-VL, GUI-Owl and MAI-UI: its definition, calls and their meaning.

The definition is that of QwenLM/Qwen2.5-VL (cookbooks/utils/agent_function_call.py) in the template of QwenLM/Qwen-Agent
(nous_fncall_prompt.py), both under the Apache License 2.0, since models were trained on exactly this text.
"""

# ruff: noqa: E501

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mobilerl.envs.base import Action, Back, Enter, Finish, Home, Invalid, Launch, LongPress, Swipe, Tap, Type, Wait
from mobilerl.policy.formats.base import (
    INFEASIBLE,
    NOBODY,
    ActionReader,
    Arguments,
    Published,
    ignore_arguments,
    number,
    split_thought,
    text_of,
)
from mobilerl.policy.grammar import GrammarError, excerpt
from mobilerl.policy.literals import read_object
from mobilerl.policy.parsing import Response
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import PromptSettings

ACTIONS = {
    "key": 'Perform a key event on the mobile device.\n    - This supports adb\'s `keyevent` syntax.\n    - Examples: "volume_up", "volume_down", "power", "camera", "clear".',
    "click": "Click the point on the screen with coordinate (x, y).",
    "long_press": "Press the point on the screen with coordinate (x, y) for specified seconds.",
    "swipe": "Swipe from the starting point with coordinate (x, y) to the end point with coordinates2 (x2, y2).",
    "type": "Input the specified text into the activated input box.",
    "answer": "Output the answer.",
    "system_button": "Press the system button.",
    "open": "Open an app on the device.",
    "wait": "Wait specified seconds for the change to happen.",
    "terminate": "Terminate the current task and report its completion status.",
}
"""Actions and their published descriptions, some of which each model's tool has."""

_DESCRIPTION = """\
Use a touchscreen to interact with a mobile device, and take screenshots.
* This is an interface to a mobile device with touchscreen. You can perform actions like clicking, typing, swiping, etc.
* Some applications may take time to start or process actions, so you may need to wait and take successive screenshots to see the results of your actions.
* The screen's resolution is {width}x{height}.
* Make sure to click any buttons, links, icons, etc with the cursor tip in the center of the element. Don't click boxes on their edges unless asked."""

_TEMPLATE = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tool}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""


def tools_prompt(actions: Mapping[str, str], text_use: str, size: Sequence[int], human: bool, raw: bool = False) -> str:
    """System prompt that defines the tool. `text_use` says which actions use the argument `text`.

    `human` adds the fields of early versions of Qwen-Agent. `raw` leaves line breaks and quotes unescaped.
    """
    said = [f"* `{name}`: {about}" for name, about in actions.items()]
    function = {
        "name": "mobile_use",
        "description": _DESCRIPTION.format(width=size[0], height=size[1]),
        "parameters": {
            "properties": {
                "action": {
                    "description": "\n".join(["The action to perform. The available actions are:", *said]),
                    "enum": list(actions),
                    "type": "string",
                },
                "coordinate": {
                    "description": "(x, y): The x (pixels from the left edge) and y (pixels from the top edge) coordinates to move the mouse to. Required only by `action=click`, `action=long_press`, and `action=swipe`.",
                    "type": "array",
                },
                "coordinate2": {
                    "description": "(x, y): The x (pixels from the left edge) and y (pixels from the top edge) coordinates to move the mouse to. Required only by `action=swipe`.",
                    "type": "array",
                },
                "text": {"description": f"Required only by {text_use}.", "type": "string"},
                "time": {
                    "description": "The seconds to wait. Required only by `action=long_press` and `action=wait`.",
                    "type": "number",
                },
                "button": {
                    "description": "Back means returning to the previous interface, Home means returning to the desktop, Menu means opening the application background menu, and Enter means pressing the enter. Required only by `action=system_button`",
                    "enum": ["Back", "Home", "Menu", "Enter"],
                    "type": "string",
                },
                "status": {
                    "description": "The status of the task. Required only by `action=terminate`.",
                    "type": "string",
                    "enum": ["success", "failure"],
                },
            },
            "required": ["action"],
            "type": "object",
        },
    }
    if human:
        function = {"name_for_human": "mobile_use", **function, "args_format": "Format the arguments as a JSON object."}
    tool = json.dumps({"type": "function", "function": function}, ensure_ascii=False)
    return _TEMPLATE.format(tool=tool.replace("\\n", "\n").replace('\\"', '"') if raw else tool)


# --- calls -----------------------------------------------------------------------------------------------------------

_BUTTONS: dict[str, Action] = {"back": Back(), "home": Home(), "enter": Enter()}
_WAIT_S = 2.0
"""Seconds of a wait without a time, as in GUI-Owl's agent."""


def _button(name: str) -> Action:
    """Action of a button. Raises GrammarError for others, such as Menu (recent apps) and volume."""
    name = name.strip().lower().removeprefix("keycode_")
    if name not in _BUTTONS:
        raise GrammarError(f'the button "{excerpt(name)}" cannot be pressed; only Back, Home and Enter can')
    return _BUTTONS[name]


def _terminate(arguments: Arguments) -> Action:
    return Finish("" if str(arguments.get("status", "success")).lower().startswith("succ") else INFEASIBLE)


def _wait(arguments: Arguments) -> Action:
    return Wait(max(number(arguments["time"]), 0.0) if "time" in arguments else _WAIT_S)


ACTION_READERS: dict[str, ActionReader] = {
    "click": lambda a, at: Tap(*at.point(a.get("coordinate"))),
    "tap": lambda a, at: Tap(*at.point(a.get("coordinate"))),
    "long_press": lambda a, at: LongPress(*at.point(a.get("coordinate"))),
    "swipe": lambda a, at: at.drag(a.get("coordinate"), a.get("coordinate2")),
    "scroll": lambda a, at: at.drag(a.get("coordinate"), a.get("coordinate2")),
    "type": lambda a, _: Type(text_of(a, "text")),
    "open": lambda a, _: Launch(text_of(a, "text")),
    "open_app": lambda a, _: Launch(text_of(a, "text")),
    "system_button": lambda a, _: _button(text_of(a, "button")),
    "key": lambda a, _: _button(text_of(a, "text")),
    "wait": lambda a, _: _wait(a),
    "answer": lambda a, _: Finish(text_of(a, "text")),
    "terminate": lambda a, _: _terminate(a),
    **{name: ignore_arguments(Invalid(NOBODY)) for name in ("interact", "ask_user", "call_user", "calluser")},
}
"""Our action for each action of a call. Published agents also end the task after `answer`, and ignore the `time` of a
long press and the reason of a failure."""


def find_call(text: str, last: bool = False) -> str:
    """Text from the JSON of the first or last call after the thought on; "" if there is none."""
    rest = split_thought(text)[1]
    rest = rest if "<tool_call>" in rest else text
    inside = (rest.rpartition("<tool_call>") if last else rest.partition("<tool_call>"))[2] or rest
    return inside[inside.index("{") :] if "{" in inside else ""


def read_arguments(code: str) -> Arguments:
    """Arguments of the call with which `code` begins. Raises GrammarError if it is not a valid one."""
    if not code:
        raise GrammarError("there is no <tool_call> with a JSON object")
    try:
        call, _ = read_object(code)
        arguments = call.get("arguments")
        arguments = read_object(arguments)[0] if isinstance(arguments, str) else arguments
    except GrammarError:
        raise GrammarError("the call in <tool_call> is not valid JSON") from None
    if not isinstance(arguments, dict) or call.get("name", "mobile_use") != "mobile_use":
        raise GrammarError('the call needs "name": "mobile_use" and an object "arguments"')
    return arguments


def call_of(arguments: Arguments, separators: tuple[str, str] | None = None) -> str:
    call = json.dumps({"name": "mobile_use", "arguments": arguments}, ensure_ascii=False, separators=separators)
    return f"<tool_call>\n{call}\n</tool_call>"


class MobileUse(Published):
    """Base class of the formats that use this tool."""

    readers = ACTION_READERS
    separators: tuple[str, str] | None = None
    """JSON separators in a response; None for the defaults of json, which have spaces."""
    last_call = False
    """Whether the last of several calls counts, as in the published agent, or the first."""

    def read(self, text: str, screen: Screen, policy: PromptSettings) -> Response:
        arguments = read_arguments(find_call(text, self.last_call))
        return Response(
            self.extract_thought(text), self.action(text_of(arguments, "action"), arguments, screen, policy)
        )

    def extract_thought(self, text: str) -> str:
        """Thought in a response that has a call."""
        raise NotImplementedError

    def call(self, action: Action, screen: Screen, policy: PromptSettings) -> str:
        """Writes the call that `read` reads as `action`. Raises ValueError if there is none."""
        return call_of(self.arguments(action, lambda x, y: self.write_point(x, y, screen, policy)), self.separators)

    def arguments(self, action: Action, at: Callable[[int, int], list[int]]) -> dict[str, Any]:
        match action:
            case Tap(x, y):
                return {"action": "click", "coordinate": at(x, y)}
            case LongPress(x, y):
                return {"action": "long_press", "coordinate": at(x, y), "time": 2}
            case Swipe(x, y, x2, y2):
                return {"action": "swipe", "coordinate": at(x, y), "coordinate2": at(x2, y2)}
            case Type(text):
                return {"action": "type", "text": text}
            case Launch(app):
                return {"action": "open", "text": app}
            case Back() | Home() | Enter():
                return {"action": "system_button", "button": action.kind.capitalize()}
            case Wait(seconds):
                return {"action": "wait", "time": seconds}
            case Finish(message) if message not in ("", INFEASIBLE):
                return {"action": "answer", "text": message}
            case Finish(message):
                return {"action": "terminate", "status": "failure" if message else "success"}
        raise ValueError(f"{action} has no written form")
