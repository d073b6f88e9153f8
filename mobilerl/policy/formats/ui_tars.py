"""UI-TARS 1.0 and 1.5: `Thought: ...` and `Action: click(start_box='(x,y)')`.

Sources (Apache License 2.0): bytedance/UI-TARS, README_v1.md (prompt for mobile) for 1.0 and codes/prompts.py
(MOBILE_USE) at commit 6b315cc for 1.5; codes/ui_tars/action_parser.py at 582f3a7 and bytedance/UI-TARS-desktop,
packages/ui-tars/action-parser at 239b654 for what their agents read.

- Coordinates: 1.0 uses 0-1000, 1.5 pixels of the resized screenshot. In the training data all points are between
  `<|box_start|>` and `<|box_end|>`, which servers and our decoder omit from responses and which are restored here.
- History: the prompt with the instruction, then all earlier responses, the newest ones with their screenshots.
"""

# ruff: noqa: E501

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mobilerl.envs.base import Action, Back, Enter, Finish, Home, Launch, LongPress, Observation, Tap, Task, Type, Wait
from mobilerl.policy.formats.base import (
    ASSISTANT,
    INFEASIBLE,
    ActionReader,
    Arguments,
    Chat,
    Coordinates,
    Message,
    Published,
    View,
    calls_of,
    ignore_arguments,
    select_turns,
    text_of,
)
from mobilerl.policy.grammar import GrammarError, excerpt
from mobilerl.policy.literals import Written, read_call
from mobilerl.policy.parsing import Response
from mobilerl.policy.sanitize import escape_tokens
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import PromptSettings, Turn

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
_MARKED = re.compile(r"Action[:\uff1a]\s*(?:```(?:\w*\s)?\s*)?(?=\w+\s*\()")
_POINT = re.compile(r"""['"]?<(point|bbox)>([-0-9.,\s]*)</\1>['"]?""")
_BOX = re.compile(r"""((?:start|end)_box=['"])(\([^()'"]*\))(?=['"])""")
_KEYS: Mapping[str, Action] = {"enter": Enter(), "back": Back(), "home": Home()}


def _scroll(arguments: Arguments, at: View) -> Action:
    """Scrolls between two points (1.0) or to reveal more in a direction (1.5)."""
    start = _point(arguments, "start")
    if "direction" in arguments:
        return at.scroll(arguments["direction"], start)
    return at.drag(start, _point(arguments, "end"))


def _type(arguments: Arguments, _: View) -> Action:
    """Types a text without the line break at its end, which would submit it, as UI-TARS-desktop's adb operator does."""
    content = text_of(arguments, "content")
    return Enter() if "\n" in content and not content.strip() else Type(content.removesuffix("\n"))


def _hotkey(arguments: Arguments, _: View) -> Action:
    key = str(arguments.get("key", arguments.get("hotkey", ""))).strip().lower()
    if key not in _KEYS:
        raise GrammarError(f'the key "{excerpt(key)}" cannot be pressed; only {", ".join(_KEYS)} can')
    return _KEYS[key]


ACTION_READERS: dict[str, ActionReader] = {
    **{name: lambda a, at: Tap(*at.point(_point(a, "start"))) for name in ("click", "left_single")},
    "long_press": lambda a, at: LongPress(*at.point(_point(a, "start"))),
    **{name: lambda a, at: at.drag(_point(a, "start"), _point(a, "end")) for name in ("drag", "swipe", "select")},
    "scroll": _scroll,
    "type": _type,
    "open_app": lambda a, _: Launch(text_of(a, "app_name")),
    "press_home": ignore_arguments(Home()),
    "press_back": ignore_arguments(Back()),
    "hotkey": _hotkey,
    "wait": ignore_arguments(Wait(5.0)),  # as the prompt for computers says
    "finished": lambda a, _: Finish(text_of(a, "content") if "content" in a else ""),
    "call_user": ignore_arguments(
        Finish(INFEASIBLE)
    ),  # "Submit the task and call the user when the task is unsolvable"
}


_CALLS = calls_of(ACTION_READERS)
_ALONE = re.compile(rf"\A(?={_CALLS.pattern})", re.ASCII)

FORMS = {
    "tap": "click(start_box={at})",
    "long_press": "long_press(start_box={at})",
    "swipe": "scroll(start_box={at}, end_box={to})",
    "type": "type(content={text})",
    "enter": r"type(content='\n')",
    "launch": "open_app(app_name={text})",
    "back": "press_back()",
    "home": "press_home()",
    "wait": "wait()",
    "finish": "finished(content={text})",
}


def _quote_text(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{text}'"


class UITars(Published):
    coordinates = Coordinates(1000)
    readers = ACTION_READERS
    forms, point_form = FORMS, "'<|box_start|>({},{})<|box_end|>'"
    quoted = staticmethod(_quote_text)
    settings = {"screenshots": 5, "max_new_tokens": 1024}
    prompt = PROMPT

    def build(
        self, task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: PromptSettings
    ) -> tuple[list[Message], list[bytes]]:
        chat = Chat()
        prompt = self.prompt if policy.system_prompt is None else policy.system_prompt
        chat.add("system", ASSISTANT)
        chat.add("user", prompt + self.instruction(escape_tokens(task.instruction)))
        self.turns(chat, select_turns(history, policy), observation, policy)
        return chat.messages, chat.images

    def instruction(self, text: str) -> str:
        return text

    def render_turn(self, turn: Turn, policy: PromptSettings) -> str:
        response = escape_tokens(_TOKENS.sub("", self.write_recorded(turn, policy)))
        return _BOX.sub(r"\1<|box_start|>\2<|box_end|>", response)

    def read(self, text: str, screen: Screen, policy: PromptSettings) -> Response:
        """Reads the last "Action:", as upstream, and the first of several actions in it, which it runs in turn.

        As in UI-TARS-desktop, a response may be only the action.
        """
        text = _TOKENS.sub("", text).strip()
        marked = list(_MARKED.finditer(text)) or list(_ALONE.finditer(text))
        if not marked:
            raise GrammarError('there is no line "Action:" with a call')
        before = text[: marked[-1].start()]
        thought = before.partition("Thought:")[2] or before
        call = read_action(text[marked[-1].end() :])
        return Response(thought.strip(), self.action(call.name, call.arguments, screen, policy))

    def render(self, action: Action, screen: Screen, policy: PromptSettings, thought: str | None = None) -> str:
        return f"Thought: {thought or ''}\nAction: {self.code(action, screen, policy)}"


class UITars15(UITars):
    coordinates = Coordinates(None)
    prompt = PROMPT_1_5
    forms = {**FORMS, "swipe": "drag(start_box={at}, end_box={to})"}

    def instruction(self, text: str) -> str:
        return f"{text}\n"


def read_action(code: str) -> Written:
    """Parses a call. As upstream, texts may contain unescaped quotation marks, and the last bracket may be missing.

    It may not after an opening one, where upstream would take a response that was cut off for finished().
    """
    code = code.strip().strip("`").strip()
    if not code.startswith(("type", "finished")):
        code = _POINT.sub(r"'\2'", code)
    try:
        call = read_call(code, free=("content",))
    except GrammarError:
        if not code.endswith(("'", '"')):
            raise
        return read_call(f"{code})", free=("content",))
    if _CALLS.search(code[call.end :].split("\n\n")[0]):
        raise GrammarError("there is more than one action, without an empty line between them")
    return call


def _point(arguments: Arguments, which: str) -> Any:
    """Value of `start_box`, `start_point` or `point` (`end_box`, `end_point`)."""
    names = [f"{which}_box", f"{which}_point", *(["point"] if which == "start" else [])]
    return next((arguments[name] for name in names if name in arguments), None)
