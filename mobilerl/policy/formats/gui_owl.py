"""GUI-Owl (Mobile-Agent-v3) and GUI-Owl-1.5 (Mobile-Agent-v3.5): calls of the tool `mobile_use`.

Sources (X-PLUG/MobileAgent, MIT License; the folders of AndroidWorld, Apache License 2.0), at commit 11cea57:
Mobile-Agent-v3/android_world_v3/android_world/agents (mobile_agent_utils_new.py, function_call_mobile_answer.py) and
Mobile-Agent-v3.5/android_world_v3.5/android_world/agents/gui_owl.py.

- Coordinates: GUI-Owl's are pixels of the resized screenshot, GUI-Owl-1.5's 0-1000.
- History: GUI-Owl gets one message with the conclusions of earlier responses. GUI-Owl-1.5 gets the newest responses with
  their screenshots, and a list of the actions before those.
"""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Sequence

from mobilerl.envs.base import Action, Observation, Task
from mobilerl.policy.actions import describe
from mobilerl.policy.formats.base import (
    ASSISTANT,
    Chat,
    Coordinates,
    Message,
    extract_tag,
    select_screens,
    select_turns,
    split_thought,
)
from mobilerl.policy.formats.mobile_use import ACTIONS, MobileUse, tools_prompt
from mobilerl.policy.formats.qwen import PROGRESS, Qwen25, summary_line
from mobilerl.policy.sanitize import escape_tokens
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import PromptSettings, Turn

_ASKED = """\
The user query: {instruction}
{progress}: {done}.

Before answering, explain your reasoning step-by-step in <thinking></thinking> tags, and insert them before the <tool_call></tool_call> XML tags.
After answering, summarize your action in <conclusion></conclusion> tags, and insert them after the <tool_call></tool_call> XML tags."""

_RESPONSE_FORMAT = """

# Response format

Response format for every step:
1) Action: a short imperative describing what to do in the UI.
2) A single <tool_call>...</tool_call> block containing only the JSON: {"name": <function-name>, "arguments": <args-json-object>}.

Rules:
- Output exactly in the order: Action, <tool_call>.
- Be brief: one for Action.
- Do not output anything else outside those two parts.
- If finishing, use action=terminate in the tool call."""

_ASKED_1_5 = """\
Please generate the next move according to the UI screenshot, instruction and previous actions.

Instruction: {instruction}

Previous actions:
{done}"""


class GUIOwl(Qwen25):
    coordinates = Coordinates(None)
    settings = {"screenshots": 1, "max_new_tokens": 2048}
    actions = {name: about for name, about in ACTIONS.items() if name not in ("key", "open")}

    def system(self, screen: Screen, policy: PromptSettings) -> str:
        size = self.coordinates.size(screen, policy)
        return f"{ASSISTANT}\n\n{tools_prompt(self.actions, '`action=type` and `action=answer`', size, human=True)}"

    def format_query(self, instruction: str, done: str) -> str:
        return _ASKED.format(instruction=instruction, progress=PROGRESS, done=done)

    def step(self, turn: Turn, policy: PromptSettings) -> str:
        said = extract_tag(self.render_turn(turn, policy), "conclusion").replace("\n", "").replace('"', "")
        return said or escape_tokens(turn.summary)

    def render(self, action: Action, screen: Screen, policy: PromptSettings, thought: str | None = None) -> str:
        call = self.call(action, screen, policy)
        conclusion = f"<conclusion>\n{describe(action, screen)}\n</conclusion>"
        return f"<thinking>\n{thought or ''}\n</thinking>\n{call}\n{conclusion}"


class GUIOwl15(MobileUse):
    coordinates = Coordinates(1000)
    settings = {"screenshots": 5, "max_new_tokens": 2048}
    actions = {**ACTIONS, "answer": "Terminate the current task and output the answer."}
    last_call = True
    order = "key click long_press swipe type system_button open wait answer terminate".split()

    @property
    def prompt(self) -> str:
        actions = {name: self.actions[name] for name in self.order}
        text_use = "`action=key`, `action=type`, `action=open`, `action=answer`"
        return tools_prompt(actions, text_use, (1000, 1000), human=True, raw=True) + _RESPONSE_FORMAT

    def build(
        self, task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: PromptSettings
    ) -> tuple[list[Message], list[bytes]]:
        """Builds a prompt with the newest turns, those with screenshots, as messages and earlier ones as a list."""
        chat = Chat.begin(self.prompt, policy)
        turns = select_turns(history, policy)
        first, kept = len(history) - len(turns), min(len(turns), max(policy.screenshots - 1, 0))
        listed, turns = turns[: len(turns) - kept], turns[len(turns) - kept :]
        done = [f"Step{first + i + 1}: {self.step(turn, policy)}" for i, turn in enumerate(listed)]
        asked = _ASKED_1_5.format(
            instruction=escape_tokens(task.instruction), done="\n".join(done) or "No previous action."
        )
        observations = [*(turn.observation for turn in turns), observation]
        for i, seen in enumerate(observations):
            chat.add("user", *([asked] if i == 0 else []), *select_screens(seen, policy))
            if i < len(turns):
                chat.add("assistant", self.render_turn(turns[i], policy))
        return chat.messages, chat.images

    def step(self, turn: Turn, policy: PromptSettings) -> str:
        return summary_line(self.render_turn(turn, policy)) or escape_tokens(turn.summary)

    def extract_thought(self, text: str) -> str:
        return split_thought(text)[0] or summary_line(text)

    def render(self, action: Action, screen: Screen, policy: PromptSettings, thought: str | None = None) -> str:
        return f"Action: {' '.join((thought or describe(action, screen)).split())}\n{self.call(action, screen, policy)}"
