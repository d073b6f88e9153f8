"""AutoGLM-Phone (Open-AutoGLM): `<think>`, and `<answer>do(action="Tap", element=[x,y])</answer>`.

Source (Apache License 2.0): zai-org/Open-AutoGLM, phone_agent/config/prompts_en.py, agent.py, model/client.py and
actions/handler.py at commit 6b18d7b. The published prompt begins with the host's date, which is left out: the phone has
its own clock, and prompts should not change from day to day.

- Coordinates: 0-1000.
- History: earlier turns as messages without screenshots; every user message names the foreground app.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from mobilerl.envs.base import (
    Action,
    Back,
    Enter,
    Finish,
    Home,
    Invalid,
    Launch,
    LongPress,
    Observation,
    Tap,
    Task,
    Type,
    Wait,
)
from mobilerl.policy.formats.base import (
    BOX_TOKENS,
    NOBODY,
    ActionReader,
    Arguments,
    Chat,
    Coordinates,
    Message,
    Published,
    ignore_arguments,
    number,
    select_screens,
    select_turns,
    split_thought,
    text_of,
)
from mobilerl.policy.grammar import GrammarError
from mobilerl.policy.literals import read_call
from mobilerl.policy.parsing import Response
from mobilerl.policy.sanitize import escape_tokens
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import PromptSettings, Turn

PROMPT = """\
# Setup
You are a professional Android operation agent assistant that can fulfill the user's high-level instructions. Given a \
screenshot of the Android interface at each step, you first analyze the situation, then plan the best course of action \
using Python-style pseudo-code.

# More details about the code
Your response format must be structured as follows:

Think first: Use <think>...</think> to analyze the current screen, identify key elements, and determine the most \
efficient action.
Provide the action: Use <answer>...</answer> to return a single line of pseudo-code representing the operation.

Your output should STRICTLY follow the format:
<think>
[Your thought]
</think>
<answer>
[Your operation code]
</answer>

- **Tap**
  Perform a tap action on a specified screen area. The element is a list of 2 integers, representing the coordinates \
of the tap point.
  **Example**:
  <answer>
  do(action="Tap", element=[x,y])
  </answer>
- **Type**
  Enter text into the currently focused input field.
  **Example**:
  <answer>
  do(action="Type", text="Hello World")
  </answer>
- **Swipe**
  Perform a swipe action with start point and end point.
  **Examples**:
  <answer>
  do(action="Swipe", start=[x1,y1], end=[x2,y2])
  </answer>
- **Long Press**
  Perform a long press action on a specified screen area.
  You can add the element to the action to specify the long press area. The element is a list of 2 integers, \
representing the coordinates of the long press point.
  **Example**:
  <answer>
  do(action="Long Press", element=[x,y])
  </answer>
- **Launch**
  Launch an app. Try to use launch action when you need to launch an app. Check the instruction to choose the right \
app before you use this action.
  **Example**:
  <answer>
  do(action="Launch", app="Settings")
  </answer>
- **Back**
  Press the Back button to navigate to the previous screen.
  **Example**:
  <answer>
  do(action="Back")
  </answer>
- **Finish**
  Terminate the program and optionally print a message.
  **Example**:
  <answer>
  finish(message="Task completed.")
  </answer>


REMEMBER:
- Think before you act: Always analyze the current UI and the best course of action before executing any step, and \
output in <think> part.
- Only ONE LINE of action in <answer> part per response: Each step must contain exactly one line of executable code.
- Generate execution code strictly according to format requirements.
"""

ACTION_READERS: dict[str, ActionReader] = {
    "Tap": lambda a, at: Tap(*at.point(a.get("element"))),
    "Long Press": lambda a, at: LongPress(*at.point(a.get("element"))),
    "Swipe": lambda a, at: at.drag(a.get("start"), a.get("end")),
    "Type": lambda a, _: Type(text_of(a, "text")),
    "Type_Name": lambda a, _: Type(text_of(a, "text")),
    "Launch": lambda a, _: Launch(text_of(a, "app")),
    "Back": ignore_arguments(Back()),
    "Home": ignore_arguments(Home()),
    "Enter": ignore_arguments(Enter()),
    "Wait": lambda a, _: Wait(_seconds(a)),
    "Note": ignore_arguments(Wait(0.0)),  # upstream does nothing
    "Call_API": ignore_arguments(Wait(0.0)),
    "Take_over": ignore_arguments(Invalid(NOBODY)),
    "Interact": ignore_arguments(Invalid(NOBODY)),
    "finish": lambda a, _: Finish(text_of(a, "message") if "message" in a else ""),
}
_FINISH = re.compile(r"\bfinish\s*\(\s*(?:message\s*=|\))", re.ASCII)  # \b: also after a letter of another script
_DO = re.compile(r"\bdo\s*\(\s*action\s*=", re.ASCII)
_TAGS = re.compile(r"</?think>|<answer>|```\w*")


FORMS = {
    "tap": 'do(action="Tap", element={at})',
    "long_press": 'do(action="Long Press", element={at})',
    "swipe": 'do(action="Swipe", start={at}, end={to})',
    "type": 'do(action="Type", text={text})',
    "launch": 'do(action="Launch", app={text})',
    "wait": 'do(action="Wait", duration="{seconds} seconds")',
    "back": 'do(action="Back")',
    "home": 'do(action="Home")',
    "enter": 'do(action="Enter")',
    "finish": "finish(message={text})",
}


class AutoGLM(Published):
    coordinates = Coordinates(1000)
    readers = ACTION_READERS
    forms, point_form = FORMS, "[{},{}]"
    settings = {"screenshots": 1, "max_new_tokens": 3000}
    prompt = PROMPT

    def build(
        self, task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: PromptSettings
    ) -> tuple[list[Message], list[bytes]]:
        chat = Chat.begin(self.prompt, policy)
        head = escape_tokens(task.instruction)
        turns = select_turns(history, policy)
        for turn in turns:
            chat.add("user", f"{head}\n\n{_screen_info(turn.observation)}")
            chat.add("assistant", self.render_turn(turn, policy))
            head = "** Screen Info **"
        chat.add("user", *select_screens(observation, policy), f"{head}\n\n{_screen_info(observation)}")
        return chat.messages, chat.images

    def write_recorded(self, turn: Turn, policy: PromptSettings) -> str:
        """Rewrites an earlier response with all tags, as upstream does."""
        thought, code = _split(Published.write_recorded(self, turn, policy))
        return f"<think>{thought}</think><answer>{code}</answer>"

    def read(self, text: str, screen: Screen, policy: PromptSettings) -> Response:
        thought, code = _split(text)
        if not (_DO.match(code) or _FINISH.match(code)):
            raise GrammarError("there is no do(action=...) or finish(message=...)")
        call = read_call(code, free=("text", "message"))
        if _DO.search(code, call.end) or _FINISH.search(code, call.end):
            raise GrammarError("there is more than one call")
        name = text_of(call.arguments, "action") if call.name == "do" else call.name
        return Response(thought, self.action(name, call.arguments, screen, policy))

    def render(self, action: Action, screen: Screen, policy: PromptSettings, thought: str | None = None) -> str:
        return f"<think>{thought or ''}</think><answer>{self.code(action, screen, policy)}</answer>"


def _screen_info(observation: Observation) -> str:
    return escape_tokens(json.dumps({"current_app": observation.app}, ensure_ascii=False))


def _split(text: str) -> tuple[str, str]:
    """Splits a response into thought and code, which begins with `finish` or else with the first `do`, as upstream.

    Unlike upstream, calls in the thought do not count.
    """
    thought, rest = split_thought(BOX_TOKENS.sub("", text))
    before, tagged, answer = rest.partition("<answer>")
    before, answer = (before, answer) if tagged else ("", rest)
    answer = answer.partition("</answer>")[0]
    begins = _FINISH.search(answer) or _DO.search(answer)
    start = begins.start() if begins else 0
    before = _TAGS.sub("", before + answer[:start]).strip()
    return thought or before, answer[start:].strip().removesuffix("```").strip()


def _seconds(arguments: Arguments) -> float:
    """Duration of a wait; one second if it cannot be read, as upstream."""
    try:
        return max(number(str(arguments.get("duration", "")).removesuffix("seconds").strip()), 0.0)
    except GrammarError:
        return 1.0
