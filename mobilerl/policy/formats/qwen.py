"""Qwen2.5-VL and Qwen3-VL: calls of the tool `mobile_use`.

Sources (Apache License 2.0): QwenLM/Qwen2.5-VL, cookbooks/mobile_agent.ipynb, at commit f61c3cd for Qwen2.5-VL and at
9658872 for Qwen3-VL, and the files named in `mobile_use`.

- Coordinates: Qwen2.5-VL's are pixels of the resized screenshot, Qwen3-VL's 0-999.
- History: one user message with the instruction, earlier actions as text and the newest screenshot. For Qwen2.5-VL the
  actions are earlier calls, for Qwen3-VL the lines "Action:" of earlier responses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mobilerl.envs.base import Action, Observation, Task
from mobilerl.policy.actions import describe
from mobilerl.policy.formats.base import (
    ASSISTANT,
    Chat,
    Coordinates,
    Message,
    select_screens,
    select_turns,
    split_thought,
)
from mobilerl.policy.formats.mobile_use import ACTIONS, MobileUse, find_call, tools_prompt
from mobilerl.policy.sanitize import escape_tokens
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import PromptSettings, Turn

PROGRESS = "Task progress (You have done the following operation on the current device)"

_RESPONSE_FORMAT = """

# Response format

Response format for every step:
1) Thought: one concise sentence explaining the next move (no multi-step reasoning).
2) Action: a short imperative describing what to do in the UI.
3) A single <tool_call>...</tool_call> block containing only the JSON: {"name": <function-name>, "arguments": \
<args-json-object>}.

Rules:
- Output exactly in the order: Thought, Action, <tool_call>.
- Be brief: one sentence for Thought, one for Action.
- Do not output anything else outside those three parts.
- If finishing, use action=terminate in the tool call."""


def summary_line(response: str) -> str:
    """Line "Action:" of a response without quotes, as Qwen's agents show it in the history; "" if there is none."""
    found = re.search(r"Action:(.*?)(?=<tool_call>|$)", split_thought(response)[1], re.DOTALL)
    return found[1].replace("\n", "").replace('"', "").strip() if found else ""


class Qwen25(MobileUse):
    coordinates = Coordinates(None)
    settings = {"screenshots": 1, "max_new_tokens": 2048}
    actions = {name: about for name, about in ACTIONS.items() if name != "answer"}

    def system(self, screen: Screen, policy: PromptSettings) -> str:
        size = self.coordinates.size(screen, policy)
        text_use = "`action=key`, `action=type`, and `action=open`"
        return f"{ASSISTANT}\n\n{tools_prompt(self.actions, text_use, size, human=True)}"

    def build(
        self, task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: PromptSettings
    ) -> tuple[list[Message], list[bytes]]:
        chat = Chat.begin(self.system(screen, policy), policy)
        chat.add("user", self.query(task.instruction, history, policy), *select_screens(observation, policy))
        return chat.messages, chat.images

    def query(self, instruction: str, history: Sequence[Turn], policy: PromptSettings) -> str:
        skipped = len(history) - len(select_turns(history, policy))
        done = [f"Step {i + 1}: {self.step(turn, policy)}; " for i, turn in enumerate(history)][skipped:]
        return self.format_query(escape_tokens(instruction), "".join(done))

    def format_query(self, instruction: str, done: str) -> str:
        return f"The user query: {instruction}\n{PROGRESS}: {done}"

    def step(self, turn: Turn, policy: PromptSettings) -> str:
        """Entry of an earlier turn in the history, which here is its call."""
        return find_call(self.render_turn(turn, policy)).partition("</tool_call>")[0].strip() or escape_tokens(
            turn.summary
        )

    def extract_thought(self, text: str) -> str:
        thought, rest = split_thought(text)
        return thought or rest.partition("<tool_call>")[0].strip()

    def render(self, action: Action, screen: Screen, policy: PromptSettings, thought: str | None = None) -> str:
        call = self.call(action, screen, policy)
        return f"{thought}\n{call}" if thought else call


class Qwen3(Qwen25):
    coordinates = Coordinates(999)
    settings = {"screenshots": 1, "max_new_tokens": 2048}
    actions = {name: about for name, about in ACTIONS.items() if name not in ("key", "open")}

    def system(self, screen: Screen, policy: PromptSettings) -> str:
        tools = tools_prompt(self.actions, "`action=type` and `action=answer`", (999, 999), human=False)
        return f"\n\n{tools}{_RESPONSE_FORMAT}"

    def format_query(self, instruction: str, done: str) -> str:
        return f"The user query: {instruction}.\n{PROGRESS}: {done}.\n"

    def step(self, turn: Turn, policy: PromptSettings) -> str:
        return summary_line(self.render_turn(turn, policy)) or escape_tokens(turn.summary)

    def extract_thought(self, text: str) -> str:
        thought, rest = split_thought(text)
        said = re.search(r"Thought:(.*?)(?=\n\s*Action:|<tool_call>|$)", rest, re.DOTALL)
        return thought or (said[1].strip() if said else "")

    def render(self, action: Action, screen: Screen, policy: PromptSettings, thought: str | None = None) -> str:
        said = f"Thought: {' '.join(thought.split())}\n" if thought else ""
        return f"{said}Action: {describe(action, screen)}\n{self.call(action, screen, policy)}"
