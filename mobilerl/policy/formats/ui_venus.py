"""UI-Venus 1.0 and 1.5: `<think>`, `<action>Click(box=(x,y))</action>` and `<conclusion>`.

Action space and tags are those of inclusionAI/UI-Venus (models/navigation and Venus_framework at commit c3a1442). That
repository has no license file, and its README limits it to research and education, so the prompt below is our own.

- Coordinates: 1.0 (from Qwen2.5-VL) uses pixels of the resized screenshot, 1.5 (from Qwen3-VL) 0-1000.
- History: one user message with the thoughts and actions of earlier responses and the newest screenshot.
"""

from __future__ import annotations

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
    ASSISTANT,
    ActionReader,
    Arguments,
    Chat,
    Coordinates,
    Message,
    Published,
    View,
    calls_of,
    extract_tag,
    ignore_arguments,
    select_screens,
    select_turns,
    split_thought,
    text_of,
)
from mobilerl.policy.grammar import GrammarError
from mobilerl.policy.literals import Written, read_call
from mobilerl.policy.parsing import Response
from mobilerl.policy.sanitize import escape_tokens
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import PromptSettings, Turn

PROMPT = """\
You operate a phone through its screen. From the task, the steps taken so far and the current screenshot, choose the \
next action.

### Actions
- Click(box=(x,y))
- LongPress(box=(x,y))
- Drag(start=(x1,y1), end=(x2,y2))
- Scroll(start=(x1,y1), end=(x2,y2))
- Type(content='text for the field that has the focus')
- Launch(app='name of the app')
- PressBack()
- PressHome()
- PressEnter()
- Wait()
- CallUser(content='answer to the user')
- Finished(content='')

### Task
{task}

### Steps so far
{done}

### Answer in this form
<think> what the screen shows and what comes next </think>
<action> one action </action>
<conclusion> what the action is for </conclusion>
"""


def _finish(arguments: Arguments, _: View) -> Action:
    return Finish(text_of(arguments, "content") if "content" in arguments else "")


def _scroll(arguments: Arguments, at: View) -> Action:
    if "direction" in arguments and not ("start" in arguments and "end" in arguments):
        return at.scroll(arguments["direction"], arguments.get("start"))
    return at.drag(arguments.get("start"), arguments.get("end"))


ACTION_READERS: dict[str, ActionReader] = {
    "Click": lambda a, at: Tap(*at.point(a.get("box"))),
    "LongPress": lambda a, at: LongPress(*at.point(a.get("box"))),
    "Drag": lambda a, at: at.drag(a.get("start"), a.get("end")),
    "Scroll": _scroll,
    "Type": lambda a, _: Type(text_of(a, "content")),
    "Launch": lambda a, _: Launch(text_of(a, "app")),
    "PressBack": ignore_arguments(Back()),
    "PressHome": ignore_arguments(Home()),
    "PressEnter": ignore_arguments(Enter()),
    "PressRecent": ignore_arguments(Invalid("the recent apps cannot be shown; use Launch")),
    "Wait": ignore_arguments(Wait()),
    "CallUser": _finish,  # gives the user the answer, which ends the task
    "Finished": _finish,
}


_CALLS = calls_of(ACTION_READERS)

FORMS = {
    "tap": "Click(box={at})",
    "long_press": "LongPress(box={at})",
    "swipe": "Scroll(start={at}, end={to})",
    "type": "Type(content={text})",
    "launch": "Launch(app={text})",
    "back": "PressBack()",
    "home": "PressHome()",
    "enter": "PressEnter()",
    "wait": "Wait()",
    "finish": "CallUser(content={text})",
}


class UIVenus(Published):
    coordinates = Coordinates(None, clamped=True)
    readers = ACTION_READERS
    forms, point_form = FORMS, "({},{})"
    settings = {"screenshots": 1, "history_steps": 5, "max_new_tokens": 2048}

    def build(
        self, task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: PromptSettings
    ) -> tuple[list[Message], list[bytes]]:
        """Builds the prompt. As upstream, steps are counted from the first one shown."""
        chat = Chat()
        done = [f"Step {i}: {self.render_turn(turn, policy)}" for i, turn in enumerate(select_turns(history, policy))]
        prompt = PROMPT if policy.system_prompt is None else policy.system_prompt
        asked = prompt.replace("{task}", escape_tokens(task.instruction), 1).replace("{done}", "\n".join(done), 1)
        chat.add("system", ASSISTANT)
        chat.add("user", asked, *select_screens(observation, policy))
        return chat.messages, chat.images

    def write_recorded(self, turn: Turn, policy: PromptSettings) -> str:
        response = Published.write_recorded(self, turn, policy)
        return f"<think>{extract_tag(response, 'think')}</think><action>{extract_tag(response, 'action')}</action>"

    def read(self, text: str, screen: Screen, policy: PromptSettings) -> Response:
        call = _call(text)
        return Response(extract_tag(text, "think"), self.action(call.name, call.arguments, screen, policy))

    def render(self, action: Action, screen: Screen, policy: PromptSettings, thought: str | None = None) -> str:
        return f"<think>{thought or ''}</think>\n<action>{self.code(action, screen, policy)}</action>"

    def code(self, action: Action, screen: Screen, policy: PromptSettings) -> str:
        return "Finished(content='')" if action == Finish("") else Published.code(self, action, screen, policy)


class UIVenus15(UIVenus):
    coordinates = Coordinates(1000)


def _call(text: str) -> Written:
    """Parses the first call in <action>, or that of a response which begins with one, as Venus_framework does.

    As upstream, values need no quotation marks, and texts may contain unescaped ones.
    """
    code = extract_tag(text, "action")
    begins = _CALLS.search(code) if code else _CALLS.match(code := split_thought(text)[1].strip())
    if begins is None:
        raise GrammarError("there is no <action> tag with a known action")
    return read_call(code, begins.start(), free=("content",), bare=True)
