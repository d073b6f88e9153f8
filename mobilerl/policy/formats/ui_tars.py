"""UI-TARS 1.0 and 1.5: `Thought: ...` and `Action: click(start_box='(x,y)')`.

Sources (Apache License 2.0): bytedance/UI-TARS, README_v1.md (prompt for mobile) for 1.0 and codes/prompts.py
(MOBILE_USE) at commit 6b315cc for 1.5.

- Coordinates: 1.0 writes 0-1000, 1.5 pixels of the resized screenshot. In training data every point is between
  `<|box_start|>` and `<|box_end|>`, which servers and our decoder leave out of replies: here they are put back.
- History: the prompt with the instruction, then every earlier reply, the newest with their screenshots.
"""

# ruff: noqa: E501

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from envs.base import Action, Back, Enter, Finish, Home, Launch, LongPress, Observation, Swipe, Tap, Task, Type, Wait
from mobilerl.policy.actions import swipe_from
from mobilerl.policy.formats.base import ASSISTANT, INFEASIBLE, Chat, Coordinates, Message, Published, text_of, told
from mobilerl.policy.grammar import Call, GrammarError, excerpt, parse_call
from mobilerl.policy.parsing import Reply
from mobilerl.policy.sanitize import escape_tokens
from mobilerl.policy.screen import Screen

if TYPE_CHECKING:
    from mobilerl.policy.context import ContextPolicy, Turn

PROMPT = """\
You are a GUI agent. You are given a task and your action history, with screenshots. You need to perform the next action to complete the task. 

## Output Format
```\\nThought: ...
Action: ...\\n```

## Action Space
click(start_box='<|box_start|>(x1,y1)<|box_end|>')
long_press(start_box='<|box_start|>(x1,y1)<|box_end|>', time='')
type(content='')
scroll(start_box='<|box_start|>(x1,y1)<|box_end|>', end_box='<|box_start|>(x3,y3)<|box_end|>')
press_home()
press_back()
finished(content='') # Submit the task regardless of whether it succeeds or fails.

## Note
- Use English in `Thought` part.

- Write a small plan and finally summarize your next action (with its target element) in one sentence in `Thought` part.

## User Instruction
"""

PROMPT_1_5 = """\
You are a GUI agent. You are given a task and your action history, with screenshots. You need to perform the next action to complete the task. 
## Output Format
```
Thought: ...
Action: ...
```
## Action Space

click(start_box='<|box_start|>(x1,y1)<|box_end|>')
long_press(start_box='<|box_start|>(x1,y1)<|box_end|>')
type(content='') #If you want to submit your input, use "\\n" at the end of `content`.
scroll(start_box='<|box_start|>(x1,y1)<|box_end|>', direction='down or up or right or left')
open_app(app_name='')
drag(start_box='<|box_start|>(x1,y1)<|box_end|>', end_box='<|box_start|>(x3,y3)<|box_end|>')
press_home()
press_back()
finished(content='xxx') # Use escape characters \\', \\", and \\n in content part to ensure we can parse the content in normal python string format.


## Note
- Use English in `Thought` part.
- Write a small plan and finally summarize your next action (with its target element) in one sentence in `Thought` part.

## User Instruction
"""

_TOKENS = re.compile(r"<\|box_start\|>|<\|box_end\|>|\[EOS\]")
_POINT = re.compile(r"\(\s*-?[0-9.]+\s*,\s*-?[0-9.]+\s*\)")
_BOX = re.compile(r"""((?:start|end)_box=['"])(\([^()'"]*\))(?=['"])""")
_TEXT_CALL = re.compile(r"""(type|finished)\(content=(['"])(.*)\2\s*\)?""", re.DOTALL)
_KEYS: Mapping[str, Action] = {"enter": Enter(), "back": Back(), "home": Home()}
_FINGER = {"down": "up", "up": "down", "left": "right", "right": "left"}
"""A scroll shows more on the side of its direction, so the finger moves the other way."""
_WAIT_S = 5.0
"""As the prompt for computers says of `wait`."""


class UITars(Published):
    coordinates = Coordinates(1000)
    settings = {"screenshots": 5, "max_new_tokens": 1024}
    prompt = PROMPT

    def build(
        self, task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: ContextPolicy
    ) -> tuple[list[Message], list[bytes]]:
        chat = Chat()
        prompt = self.prompt if policy.system_prompt is None else policy.system_prompt
        chat.add("system", ASSISTANT)
        chat.add("user", prompt + self.instruction(escape_tokens(task.instruction)))
        self.turns(chat, told(history, policy), observation, policy)
        return chat.messages, chat.images

    def instruction(self, text: str) -> str:
        return text

    def said(self, turn: Turn, policy: ContextPolicy) -> str:
        reply = escape_tokens(_TOKENS.sub("", self.reply_of(turn, policy)))
        return _BOX.sub(r"\1<|box_start|>\2<|box_end|>", reply)

    def read(self, text: str, screen: Screen, policy: ContextPolicy) -> Reply:
        """The last "Action:" counts, as upstream, and of several actions the first."""
        before, marked, code = _TOKENS.sub("", text).rpartition("Action:")
        if not marked:
            raise GrammarError('there is no line "Action:"')
        thought = before.partition("Thought:")[2] or before
        return Reply(thought.strip(), self.action(read_action(code), screen, policy))

    def action(self, call: Call, screen: Screen, policy: ContextPolicy) -> Action:
        arguments = call.arguments

        def at(key: str) -> tuple[int, int]:
            return self.point(_numbers(arguments, key), screen, policy)

        match call.name:
            case "click":
                return Tap(*at("start"))
            case "long_press":
                return LongPress(*at("start"))
            case "drag" | "swipe":
                return Swipe(*at("start"), *at("end"))
            case "scroll" if "direction" not in arguments:
                return Swipe(*at("start"), *at("end"))
            case "scroll":
                finger = _FINGER.get(text_of(arguments, "direction").strip().lower())
                if finger is None:
                    raise GrammarError('the argument "direction" must be one of down, up, left, right')
                return swipe_from(*at("start"), finger, "medium", screen.width, screen.height)
            case "type":
                content = text_of(arguments, "content")
                return Enter() if content.strip() == "" and "\n" in content else Type(content.removesuffix("\n"))
            case "open_app":
                return Launch(text_of(arguments, "app_name"))
            case "press_home":
                return Home()
            case "press_back":
                return Back()
            case "hotkey" if (key := str(arguments.get("key", "")).lower()) in _KEYS:
                return _KEYS[key]
            case "wait":
                return Wait(_WAIT_S)
            case "finished":
                return Finish(text_of(arguments, "content") if "content" in arguments else "")
            case "call_user":  # "Submit the task and call the user when the task is unsolvable"
                return Finish(INFEASIBLE)
        raise GrammarError(f'unknown action "{excerpt(call.name)}"')

    def render(self, action: Action, screen: Screen, policy: ContextPolicy, thought: str | None = None) -> str:
        return f"Thought: {thought or ''}\nAction: {self.code(action, screen, policy)}"

    def code(self, action: Action, screen: Screen, policy: ContextPolicy) -> str:
        def box(x: int, y: int) -> str:
            return "'<|box_start|>({},{})<|box_end|>'".format(*self.written(x, y, screen, policy))

        match action:
            case Tap(x, y):
                return f"click(start_box={box(x, y)})"
            case LongPress(x, y):
                return f"long_press(start_box={box(x, y)})"
            case Swipe(x, y, x2, y2):
                return f"{self.drag}(start_box={box(x, y)}, end_box={box(x2, y2)})"
            case Type(text):
                return f"type(content={_quoted(text)})"
            case Enter():
                return r"type(content='\n')"
            case Launch(app):
                return f"open_app(app_name={_quoted(app)})"
            case Home() | Back():
                return f"press_{action.kind}()"
            case Wait():
                return "wait()"
            case Finish(message):
                return f"finished(content={_quoted(message)})"
        raise ValueError(f"{action} has no written form")

    drag = "scroll"


class UITars15(UITars):
    coordinates = Coordinates(None)
    prompt = PROMPT_1_5
    drag = "drag"

    def instruction(self, text: str) -> str:
        return f"{text}\n"


def read_action(code: str) -> Call:
    """A call; upstream's parser also takes texts with bare quotation marks and a missing bracket."""
    code = re.sub(r"<point>\s*(-?[0-9.]+)[\s,]+(-?[0-9.]+)\s*</point>", r"(\1,\2)", code).strip().strip("`").strip()
    code = code.split(")\n\n")[0].rstrip()
    code = code if code.endswith(")") else f"{code})"
    try:
        return parse_call(code)
    except GrammarError:
        if (found := _TEXT_CALL.fullmatch(code)) is None:
            raise
        content = found[3].replace("\\n", "\n").replace("\\'", "'").replace('\\"', '"')
        return Call(found[1], {"content": content})


def _numbers(arguments: Mapping[str, Any], which: str) -> list[str]:
    """The numbers of `start_box`, `start_point` or `point` (`end_...`), as texts."""
    names = [f"{which}_box", f"{which}_point", *(["point"] if which == "start" else [])]
    value = next((arguments[name] for name in names if name in arguments), "")
    if not isinstance(value, str) or not _POINT.fullmatch(value.strip()):
        raise GrammarError(f"the argument \"{which}_box\" must be written '(x,y)'")
    return value.strip()[1:-1].split(",")


def _quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{text}'"
