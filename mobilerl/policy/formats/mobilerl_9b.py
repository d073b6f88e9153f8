"""MobileRL-9B: the prompt and the behavior of the published checkpoint's own agent.

Source (MIT): THUDM/MobileRL at commit 82f3b7e, the agent with boxes and two screenshots. The text of its system prompt
is not copied: ours has the same parts, and `agent.system_prompt` takes the original.

- Messages: as in mobilerl's chat layout, with all thoughts. The user turn before the current one is repeated with its
  screenshot and, as upstream, with the app that is in front now. Only the current turn lists the elements.
- Elements: boxes in 0-999, touched in the middle; a box with a number above 999 is one in pixels. Two numbers are a
  point. Swipe, Type and Launch mean what they do in mobilerl's format.
- An unreadable response ends the episode (`max_invalid` = 1), and so do five equal actions in a row.
- Not as upstream: a Swipe without an element starts in the middle of the screen instead of raising; a Launch of an
  unknown name is not taken for the nearest one; Call_API is unreadable; goals of AndroidWorld have no prefix, as in
  upstream's local script and unlike its deployed one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

from mobilerl.envs.base import COORD_MAX, Action, Observation, Task, Wait
from mobilerl.policy.actions import format_action
from mobilerl.policy.formats.base import Message
from mobilerl.policy.formats.mobilerl import MobileRLFormat
from mobilerl.policy.grammar import Call
from mobilerl.policy.parsing import Response, is_box, parse_response
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import PromptSettings, Turn
from mobilerl.records.engine import ANSWER_END

PROMPT = """\
You are an expert in operating Android phones. You are given a task and, step by step, the screen of a phone, and you \
choose the next action that brings the task forward.

# Form of a reply
<think>
What you see, what has been done so far, and why the next action is the right one.
</think>
<answer>
One action, written as one line of code.
</answer>

# Actions
An element is the box of a part of the screen, [x1,y1,x2,y2]: whole numbers from 0 to 999, from the top left corner.
- Tap an element.
  do(action="Tap", element=[102,334,897,401])
- Type a text into the field that has the focus. It replaces what is there.
  do(action="Type", text="Hello")
- Swipe from the middle of an element. direction is "up", "down", "left" or "right" and says where the finger moves; \
dist is "long", "medium" or "short".
  do(action="Swipe", direction="up", dist="medium", element=[0,120,999,940])
- Press an element for a second.
  do(action="Long Press", element=[102,334,897,401])
- Open an app by its name.
  do(action="Launch", app="Settings")
- Go back to the previous screen.
  do(action="Back")
- End the task, with the answer if a question was asked.
  finish(message="The task is done.")

# Remember
- Think about the screen and the task before every action.
- Write exactly one line of code between the answer tags.
- Keep to the form of these examples.
- Take positions from the listed elements where they are listed."""
WAIT_S = 5.0


class MobileRL9B(MobileRLFormat):
    """The format in which MobileRL-9B was published."""

    settings = {"screenshots": 2, "max_new_tokens": 4096, "max_invalid": 1}
    stop = (ANSWER_END, "<|user|>", "<|observation|>")
    most_equal = 5
    tells_problems = repeats_own_app = False

    def build(
        self, task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: PromptSettings
    ) -> tuple[list[Message], list[bytes]]:
        system = PROMPT if policy.system_prompt is None else policy.system_prompt
        own = replace(policy, system_prompt=system, layout="chat", grounding="box", history_thoughts=True)
        return super().build(task, history, observation, screen, own)

    def parse(self, text: str, screen: Screen, policy: PromptSettings) -> Response:
        width, height = screen.width, screen.height
        response = parse_response(text, screen, "box", width, height, lambda call: _without_pixels(call, width, height))
        return replace(response, action=Wait(WAIT_S)) if isinstance(response.action, Wait) else response

    def render(self, action: Action, screen: Screen, policy: PromptSettings, thought: str | None = None) -> str:
        if thought and "</think>" in thought:
            raise ValueError("render: the thought contains </think>; remove it")
        think = "" if thought is None else f"<think>\n{thought}\n</think>\n"
        return f"{think}<answer>\n{format_action(action, screen, 'box')}\n</answer>"


def _without_pixels(call: Call, width: int, height: int) -> Call:
    """The call with an element in pixels converted to 0-999."""
    box = call.arguments.get("element")
    if not is_box(box) or max(box) <= COORD_MAX:
        return call
    scaled: Any = [v * COORD_MAX / size for v, size in zip(box, cycle((width, height)), strict=False)]
    return Call(call.name, {**call.arguments, "element": scaled})
