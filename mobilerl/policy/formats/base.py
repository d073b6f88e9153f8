"""The `Format` protocol, and what the formats of published models share: messages, coordinates, tagged responses.

Formats of published models show only screenshots, without a list of screen elements, and touch points. Of the agent
settings they use `screenshots`, `history_steps` and `system_prompt`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mobilerl.envs.base import (
    COORD_MAX,
    Action,
    Finish,
    Invalid,
    Launch,
    LongPress,
    Observation,
    Swipe,
    Tap,
    Task,
    Type,
    Wait,
)
from mobilerl.policy.actions import MIDDLE, OFFSETS, swipe_from
from mobilerl.policy.formats.pixels import qwen_size
from mobilerl.policy.grammar import GrammarError, excerpt, quote
from mobilerl.policy.parsing import Response
from mobilerl.policy.sanitize import encodable, escape_tokens
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import PromptSettings, Turn

Message = dict[str, Any]
Point = tuple[int, int]
ASSISTANT = "You are a helpful assistant."
INFEASIBLE = "infeasible"
"""The answer (`Finish.message`) to a task that cannot be done, as expected by the embedded phone's tasks."""
NOBODY = "nobody is there to answer; decide yourself"
"""Reason for rejecting an action that asks the user."""
BOX_TOKENS = re.compile(r"<\|(?:begin|end)_of_box\|>")
"""Tokens in which GLM's models put their answer."""
_OPPOSITE = {"down": "up", "up": "down", "left": "right", "right": "left"}


class Format(Protocol):
    """Prompt and response format of a family of models."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Agent settings of the published agent, used where the user sets none."""

    @property
    def stop(self) -> tuple[str, ...]:
        """Stop strings of a response, besides the model's end token."""

    @property
    def most_equal(self) -> int | None:
        """Equal actions in a row after which the published agent finishes by itself; None if it never does."""

    def build(
        self, task: Task, history: Sequence[Turn], observation: Observation, screen: Screen, policy: PromptSettings
    ) -> tuple[list[Message], list[bytes]]:
        """Builds messages for a Hugging Face chat template, and returns them with the PNGs of their image parts."""

    def parse(self, text: str, screen: Screen, policy: PromptSettings) -> Response:
        """Parses a response to a prompt that showed `screen`. Never raises: bad text gives `Invalid(reason)`."""

    def render(self, action: Action, screen: Screen, policy: PromptSettings, thought: str | None = None) -> str:
        """Writes the response that `parse` reads as `action`, to within a pixel. Raises ValueError if there is none."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Coordinate system of a format."""

    per_screen: int | None
    """Width and height of the screen in the format's units; None for pixels of the screenshot as the model sees it."""
    clamped: bool = False
    """Whether a point beyond the right or bottom edge means the edge, as in agents that clamp."""

    def size(self, screen: Screen, policy: PromptSettings) -> Point:
        """Width and height of the screen in the format's units."""
        if self.per_screen:
            return self.per_screen, self.per_screen
        height, width = (policy.size_seen or qwen_size)(screen.width, screen.height)
        return width, height

    def read(self, values: Any, size: Point) -> Point:
        """Reads a point, or the center of a box, in 0-999. Raises GrammarError for anything else.

        Models that count from 0 to 999 also write 1000 for the right and the bottom edge.
        """
        numbers = [number(value) for value in _list_values(values)]
        if len(numbers) not in (2, 4):
            raise GrammarError("a point must be written as two numbers")
        middle = (numbers[0] + numbers[-2]) / 2, (numbers[1] + numbers[-1]) / 2
        beyond = math.inf if self.clamped else int(self.per_screen == COORD_MAX)
        if not all(0 <= at <= whole + beyond for at, whole in zip(middle, size, strict=True)):
            raise GrammarError(f"the point is not on the screen, which is {size[0]} wide and {size[1]} high")
        x, y = (round(min(at, whole) * COORD_MAX / whole) for at, whole in zip(middle, size, strict=True))
        return x, y

    def write(self, x: int, y: int, size: Point) -> list[int]:
        """Converts a point in 0-999 to the format's coordinates."""
        written = [round(v * whole / COORD_MAX) for v, whole in zip((x, y), size, strict=True)]
        return [min(v, COORD_MAX) for v in written] if self.per_screen else written


@dataclass(frozen=True, slots=True)
class View:
    """The screen of a response in its format's coordinates. Methods raise GrammarError for points outside it."""

    coordinates: Coordinates
    screen: Screen
    policy: PromptSettings

    def point(self, values: Any) -> Point:
        return self.coordinates.read(values, self.coordinates.size(self.screen, self.policy))

    def drag(self, start: Any, end: Any) -> Swipe:
        return Swipe(*self.point(start), *self.point(end))

    def swipe(self, direction: Any, start: Any = None) -> Swipe:
        """MobileRL's medium swipe; `direction` is that of the finger, and the default start the screen's center."""
        direction = str(direction).strip().lower()
        if direction not in OFFSETS:
            raise GrammarError(f"the direction must be one of {', '.join(OFFSETS)}")
        x, y = self.point(start) if start else (MIDDLE, MIDDLE)
        return swipe_from(x, y, direction, "medium", self.screen.width, self.screen.height)

    def scroll(self, direction: Any, start: Any = None) -> Swipe:
        """A swipe that reveals more in `direction`, for which the finger moves the opposite way."""
        return self.swipe(_OPPOSITE.get(str(direction).strip().lower()), start)


Arguments = Mapping[str, Any]
ActionReader = Callable[[Arguments, View], Action]
"""Maps the arguments of an action in a response to our action."""


def ignore_arguments(action: Action) -> ActionReader:
    """Reader of an action without arguments or, with an Invalid, of one that has no counterpart."""
    return lambda *_: action


def _list_values(values: Any) -> Sequence[Any]:
    """Elements of a point or a box, which may be a list in a list, two corners, or a text such as "(x,y)"."""
    if isinstance(values, str):
        return re.sub(r"</?(?:point|bbox)>|[()\[\],]", " ", values).split()
    if not isinstance(values, Sequence):
        return ()
    if values and all(isinstance(value, list) for value in values):
        return [number for value in values for number in value]
    return values


def number(value: Any) -> float:
    """Reads a JSON number or a number in a string. Raises GrammarError for anything else."""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,9}(\.[0-9]{0,20})?\s*", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e9 < value < 1e9:
        raise GrammarError("a number is missing or too large")
    return float(value)


def text_of(arguments: Mapping[str, Any], key: str) -> str:
    """Reads a text, which may be written as a number. Raises GrammarError if it is missing or anything else."""
    value = arguments.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise GrammarError(f'the argument "{key}" must be a text')
    return encodable(str(value))  # JSON can hold half an emoji


@dataclass(slots=True)
class Chat:
    """A chat under construction. The caller escapes texts that come from a task, an app or a model."""

    messages: list[Message] = field(default_factory=list)
    images: list[bytes] = field(default_factory=list)

    @classmethod
    def begin(cls, system: str, policy: PromptSettings) -> Chat:
        """A chat with the policy's system prompt, or `system` if it has none. An empty one is left out."""
        chat, prompt = cls(), system if policy.system_prompt is None else policy.system_prompt
        if prompt:
            chat.add("system", prompt)
        return chat

    def add(self, role: str, *parts: str | Observation) -> None:
        """Adds a message of texts and screenshots, unless it would be empty."""
        content: list[Message] = []
        for part in parts:
            if isinstance(part, str):
                content.append({"type": "text", "text": part})
            elif part.screenshot:
                self.images.append(part.screenshot)
                content.append({"type": "image"})
        if content:
            self.messages.append({"role": role, "content": content})


class Published:
    """Base class of the formats of published models."""

    coordinates: Coordinates
    readers: Mapping[str, ActionReader]
    """Meanings of the actions of a response, by name."""
    forms: Mapping[str, str] = {}
    """Templates by kind of action for the calls of `code`, with {at}, {to}, {text} and {seconds} to fill in."""
    point_form = ""
    """Template of a point in a call, with {} for x and y."""
    quoted: Callable[[str], str] = staticmethod(quote)
    """Quotes a text in a call."""
    settings: Mapping[str, Any] = {}
    stop: tuple[str, ...] = ()
    most_equal: int | None = None

    def read(self, text: str, screen: Screen, policy: PromptSettings) -> Response:
        """Parses a response like `parse`, but raises GrammarError for bad text."""
        raise NotImplementedError

    def render(self, action: Action, screen: Screen, policy: PromptSettings, thought: str | None = None) -> str:
        raise NotImplementedError

    def parse(self, text: str, screen: Screen, policy: PromptSettings) -> Response:
        try:
            return self.read(text, screen, policy)
        except GrammarError as problem:
            return Response(split_thought(text)[0], Invalid(str(problem)))

    def action(self, name: str, arguments: Arguments, screen: Screen, policy: PromptSettings) -> Action:
        """Action of a response. Raises GrammarError if it is unknown or its arguments are wrong."""
        if name not in self.readers:
            raise GrammarError(f'unknown action "{excerpt(name)}"')
        return self.readers[name](arguments, View(self.coordinates, screen, policy))

    def write_point(self, x: int, y: int, screen: Screen, policy: PromptSettings) -> list[int]:
        return self.coordinates.write(x, y, self.coordinates.size(screen, policy))

    def code(self, action: Action, screen: Screen, policy: PromptSettings) -> str:
        """Writes an action by its template in `forms`. Raises ValueError if there is none."""
        if (form := self.forms.get(action.kind)) is None:
            raise ValueError(f"{action} has no written form")

        def at(x: int, y: int) -> str:
            return self.point_form.format(*self.write_point(x, y, screen, policy))

        values: dict[str, str] = {}
        match action:
            case Tap(x, y) | LongPress(x, y):
                values = {"at": at(x, y)}
            case Swipe(x, y, x2, y2):
                values = {"at": at(x, y), "to": at(x2, y2)}
            case Type(text) | Launch(text) | Finish(text):
                values = {"text": self.quoted(text)}
            case Wait(seconds):
                values = {"seconds": f"{seconds:g}"}
        return form.format(**values)

    def write_recorded(self, turn: Turn, policy: PromptSettings) -> str:
        """The response of an earlier turn; a demonstrated one is written here, at the size at which the model sees
        it."""
        if turn.response:
            return turn.response
        screen = Screen((), turn.observation.width, turn.observation.height)
        try:
            return self.render(turn.action, screen, policy, turn.thought or None)
        except ValueError:
            return turn.summary

    def render_turn(self, turn: Turn, policy: PromptSettings) -> str:
        """The response of an earlier turn as shown in a prompt."""
        return escape_tokens(self.write_recorded(turn, policy))

    def turns(self, chat: Chat, turns: Sequence[Turn], observation: Observation, policy: PromptSettings) -> None:
        """Adds earlier responses, the newest ones with their screenshots, and the current screenshot."""
        for left, turn in zip(range(len(turns), 0, -1), turns, strict=True):
            if left < policy.screenshots:
                chat.add("user", turn.observation)
            chat.add("assistant", self.render_turn(turn, policy))
        if policy.screenshots:
            chat.add("user", observation)


def calls_of(names: Iterable[str]) -> re.Pattern[str]:
    """Matches the beginning of a call of one of the actions, with named arguments or none."""
    return re.compile(rf"\b(?:{'|'.join(names)})\s*\((?=\s*(?:\)|\w+\s*=))", re.ASCII)


def select_turns(history: Sequence[Turn], policy: PromptSettings) -> Sequence[Turn]:
    """The earlier turns that are shown in the prompt."""
    return history if policy.history_steps is None else history[max(0, len(history) - policy.history_steps) :]


def select_screens(observation: Observation, policy: PromptSettings) -> tuple[Observation, ...]:
    """The current observation if screenshots are shown, else nothing."""
    return (observation,) if policy.screenshots else ()


def split_thought(text: str) -> tuple[str, str]:
    """Splits off a thought in <think> or <thinking> tags, of which the opening one may be missing."""
    if (closed := re.search(r"</think(?:ing)?>", text)) is None:
        return "", text
    thought = text[: closed.start()].strip()
    return re.sub(r"^<think(?:ing)?>", "", thought).strip(), text[closed.end() :]


def extract_tag(text: str, tag: str) -> str:
    """Text in the first pair of tags: everything after an unclosed tag, and "" without an opening tag."""
    return text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0].strip()
