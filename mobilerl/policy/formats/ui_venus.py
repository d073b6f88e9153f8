"""UI-Venus 1.0 and 1.5: `<think>`, `<action>Click(box=(x,y))</action>` and `<conclusion>`.

Action space and tags are those of inclusionAI/UI-Venus (models/navigation and Venus_framework at commit c3a1442). The
repository has no licence file, and its README limits it to research and education: the prompt below is our own.

- Coordinates: 1.0 (from Qwen2.5-VL) writes pixels of the resized screenshot, 1.5 (from Qwen3-VL) 0-1000.
- History: one user message with the thoughts and actions of earlier replies and the newest screenshot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from envs.base import Action, Back, Enter, Finish, Home, Launch, LongPress, Observation, Swipe, Tap, Task, Type, Wait
from mobilerl.policy.actions import MIDDLE, swipe_from
from mobilerl.policy.formats.base import ASSISTANT, Chat, Coordinates, Message, Published, shown, tagged, text_of, told
from mobilerl.policy.grammar import Call, GrammarError, excerpt, parse_call, quote
from mobilerl.policy.parsing import Reply
from mobilerl.policy.sanitize import escape_tokens
from mobilerl.policy.screen import Screen

if TYPE_CHECKING:
    from mobilerl.policy.context import ContextPolicy, Turn

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

_PAIR = re.compile(r"\b(box|start|end)\s*=\s*\(([0-9.,\s-]*)\)")
_TEXT_CALL = re.compile(r"""(Type|CallUser|Finished)\(content=(['"])(.*)\2\)""", re.DOTALL)
_PLAIN: Mapping[str, Action] = {"PressBack": Back(), "PressHome": Home(), "PressEnter": Enter(), "Wait": Wait()}
_FINGER = {"down": "up", "up": "down", "left": "right", "right": "left"}


class UIVenus(Published):
    coordinates = Coordinates(None)
    settings = {"screenshots": 1, "history_steps": 5, "max_new_tokens": 2048}

    def build(
        self, task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: ContextPolicy
    ) -> tuple[list[Message], list[bytes]]:
        """As upstream, steps are counted from the first that is shown."""
        chat = Chat()
        done = [f"Step {i}: {self.said(turn, policy)}" for i, turn in enumerate(told(history, policy))]
        prompt = PROMPT if policy.system_prompt is None else policy.system_prompt
        asked = prompt.replace("{task}", escape_tokens(task.instruction), 1).replace("{done}", "\n".join(done), 1)
        chat.add("system", ASSISTANT)
        chat.add("user", asked, *shown(observation, policy))
        return chat.messages, chat.images

    def reply_of(self, turn: Turn, policy: ContextPolicy) -> str:
        reply = Published.reply_of(self, turn, policy)
        return f"<think>{tagged(reply, 'think')}</think><action>{tagged(reply, 'action')}</action>"

    def read(self, text: str, screen: Screen, policy: ContextPolicy) -> Reply:
        if not (code := tagged(text, "action")):
            raise GrammarError("there is no <action> tag")
        return Reply(tagged(text, "think"), self.action(_call(code), screen, policy))

    def action(self, call: Call, screen: Screen, policy: ContextPolicy) -> Action:
        arguments = call.arguments
        match call.name:
            case "Click":
                return Tap(*self.point(arguments.get("box"), screen, policy))
            case "LongPress":
                return LongPress(*self.point(arguments.get("box"), screen, policy))
            case "Scroll" if "direction" in arguments:
                finger = _FINGER.get(text_of(arguments, "direction").lower())
                if finger is None:
                    raise GrammarError('the argument "direction" must be one of down, up, left, right')
                return swipe_from(MIDDLE, MIDDLE, finger, "medium", screen.width, screen.height)
            case "Drag" | "Scroll":
                ends = [self.point(arguments.get(key), screen, policy) for key in ("start", "end")]
                return Swipe(*ends[0], *ends[1])
            case "Type":
                return Type(text_of(arguments, "content"))
            case "Launch":
                return Launch(text_of(arguments, "app"))
            case "Finished" | "CallUser":  # CallUser gives the user the answer, after which the task is finished
                return Finish(text_of(arguments, "content") if "content" in arguments else "")
            case "PressRecent":
                raise GrammarError("the recent apps cannot be shown; use Launch")
        if call.name in _PLAIN:
            return _PLAIN[call.name]
        raise GrammarError(f'unknown action "{excerpt(call.name)}"')

    def render(self, action: Action, screen: Screen, policy: ContextPolicy, thought: str | None = None) -> str:
        return f"<think>{thought or ''}</think>\n<action>{self.code(action, screen, policy)}</action>"

    def code(self, action: Action, screen: Screen, policy: ContextPolicy) -> str:
        def at(x: int, y: int) -> str:
            return "({},{})".format(*self.written(x, y, screen, policy))

        match action:
            case Tap(x, y):
                return f"Click(box={at(x, y)})"
            case LongPress(x, y):
                return f"LongPress(box={at(x, y)})"
            case Swipe(x, y, x2, y2):
                return f"Scroll(start={at(x, y)}, end={at(x2, y2)})"
            case Type(text):
                return f"Type(content={quote(text)})"
            case Launch(app):
                return f"Launch(app={quote(app)})"
            case Back() | Home() | Enter():
                return f"Press{action.kind.capitalize()}()"
            case Wait():
                return "Wait()"
            case Finish(message) if message:
                return f"CallUser(content={quote(message)})"
            case Finish():
                return "Finished(content='')"
        raise ValueError(f"{action} has no written form")


class UIVenus15(UIVenus):
    coordinates = Coordinates(1000)


def _call(code: str) -> Call:
    """A call; points are pairs in round brackets, and as upstream a text may hold bare quotation marks."""
    pointing = code.startswith(("Click", "LongPress", "Drag", "Scroll"))
    try:
        call = parse_call(_PAIR.sub(r"\1='\2'", code) if pointing else code)
    except GrammarError:
        if (found := _TEXT_CALL.fullmatch(code)) is None:
            raise
        return Call(found[1], {"content": found[3]})
    pairs: dict[str, Any] = {k: v.split(",") for k, v in call.arguments.items() if pointing and isinstance(v, str)}
    return Call(call.name, {**call.arguments, **{k: v for k, v in pairs.items() if k != "direction"}})
