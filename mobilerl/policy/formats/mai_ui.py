"""MAI-UI: `<thinking>`, and calls of the tool `mobile_use` with actions of its own.

Source (Apache License 2.0): Tongyi-MAI/MAI-UI, src/prompt.py (MAI_MOBILE_SYS_PROMPT) and
src/mai_naivigation_agent.py at commit 4dd07b9. According to Tongyi-MAI/MobileWorld, a swipe's direction is the finger's.

- Coordinates: 0-999.
- History: the instruction, then all earlier responses, the newest ones with their screenshots.
"""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mobilerl.envs.base import Action, Back, Enter, Finish, Home, Observation, Swipe, Task
from mobilerl.policy.formats.base import INFEASIBLE, Chat, Coordinates, Message, select_turns, split_thought
from mobilerl.policy.formats.mobile_use import ACTION_READERS, MobileUse
from mobilerl.policy.sanitize import escape_tokens
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import PromptSettings, Turn

PROMPT = """\
You are a GUI agent. You are given a task and your action history, with screenshots. You need to perform the next action to complete the task.

## Output Format
For each function call, return the thinking process in <thinking> </thinking> tags, and a json object with function name and arguments within <tool_call></tool_call> XML tags:
```
<thinking>
...
</thinking>
<tool_call>
{"name": "mobile_use", "arguments": <args-json-object>}
</tool_call>
```

## Action Space

{"action": "click", "coordinate": [x, y]}
{"action": "long_press", "coordinate": [x, y]}
{"action": "type", "text": ""}
{"action": "swipe", "direction": "up or down or left or right", "coordinate": [x, y]} # "coordinate" is optional. Use the "coordinate" if you want to swipe a specific UI element.
{"action": "open", "text": "app_name"}
{"action": "drag", "start_coordinate": [x1, y1], "end_coordinate": [x2, y2]}
{"action": "system_button", "button": "button_name"} # Options: back, home, menu, enter
{"action": "wait"}
{"action": "terminate", "status": "success or fail"}
{"action": "answer", "text": "xxx"} # Use escape characters \\', \\", and \\n in text part to ensure we can parse the text in normal python string format.


## Note
- Write a small plan and finally summarize your next action (with its target element) in one sentence in <thinking></thinking> part.
- Available Apps: `["Camera","Chrome","Clock","Contacts","Dialer","Files","Settings","Markor","Tasks","Simple Draw Pro","Simple Gallery Pro","Simple SMS Messenger","Audio Recorder","Pro Expense","Broccoli APP","OSMand","VLC","Joplin","Retro Music","OpenTracks","Simple Calendar Pro"]`.
You should use the `open` action to open the app as possible as you can, because it is the fast way to open the app.
- You must follow the Action Space strictly, and return the correct json object within <thinking> </thinking> and <tool_call></tool_call> XML tags."""


class MAIUI(MobileUse):
    coordinates = Coordinates(999)
    settings = {"screenshots": 3, "max_new_tokens": 2048}
    separators = (",", ":")
    prompt = PROMPT
    readers = {
        **ACTION_READERS,
        "swipe": lambda a, at: at.swipe(a.get("direction"), a.get("coordinate")),
        "drag": lambda a, at: at.drag(a.get("start_coordinate"), a.get("end_coordinate")),
    }

    def build(
        self, task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: PromptSettings
    ) -> tuple[list[Message], list[bytes]]:
        chat = Chat.begin(self.prompt, policy)
        chat.add("user", escape_tokens(task.instruction))
        self.turns(chat, select_turns(history, policy), observation, policy)
        return chat.messages, chat.images

    def extract_thought(self, text: str) -> str:
        return split_thought(text)[0]

    def render(self, action: Action, screen: Screen, policy: PromptSettings, thought: str | None = None) -> str:
        return f"<thinking>\n{thought or ''}\n</thinking>\n{self.call(action, screen, policy)}"

    def arguments(self, action: Action, at: Callable[[int, int], list[int]]) -> dict[str, Any]:
        match action:
            case Swipe(x, y, x2, y2):
                return {"action": "drag", "start_coordinate": at(x, y), "end_coordinate": at(x2, y2)}
            case Back() | Home() | Enter():
                return {"action": "system_button", "button": action.kind}
            case Finish(message) if message in ("", INFEASIBLE):
                return {"action": "terminate", "status": "fail" if message else "success"}
        return MobileUse.arguments(self, action, at)
