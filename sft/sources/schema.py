"""The common format of all sources: episodes of recorded steps, and the training samples made from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from typing import Any

from mobilerl.envs.base import Action, Invalid, LongPress, Observation, Tap, Task
from mobilerl.policy.actions import describe, format_response
from mobilerl.policy.context import ContextPolicy
from mobilerl.policy.sanitize import escape_tokens
from mobilerl.policy.screen import Screen, parse_screen
from mobilerl.policy.turns import Turn
from mobilerl.sft.samples import ExpertStep
from mobilerl.sft.sources.report import Counts

NO_LIST = "no list of screen elements, which mark grounding needs"
NO_MARK = "no mark stands for the touched element"
INEXPRESSIBLE = "action cannot be written as a response"
CONTROL_TOKEN = "text with a control token of the model or a lone surrogate"
_USES = {"tap": {"click", "check", "edit"}, "long_press": {"long-click"}}
"""Element actions, one of which is needed for a touch to refer to the whole element."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One screen of a recorded episode and the action taken on it."""

    screenshot: bytes
    """PNG, verified to decode to `width` x `height` px."""
    width: int
    height: int
    action: Action
    xml: str = ""
    """The screen's elements as a uiautomator dump; "" if unknown."""
    listed: bool = False
    """Whether `xml` is the phone's own list, which prompts may show. Elements derived from the screenshot only name the
    target of a tap."""
    app: str = ""
    instruction: str = ""
    """An instruction for this step only, if the source has one."""
    thought: str = ""
    response: str = ""
    """A policy's response; "" for a human step."""
    note: str = ""
    """Why the phone did not carry out the action; "" if it did."""
    reject: str = ""
    """Why the step must not be imitated; "" if it may be. It stays in the history of later steps."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A recorded episode. `steps` ends before the first step that could not be converted."""

    task: Task
    """`id` is unique within the source."""
    steps: tuple[RecordedStep, ...]
    fault: str = ""
    """Why the next step could not be converted; "" if all were."""
    lost: int = 0
    """Number of steps after that one, whose history would have a gap."""


@dataclass(frozen=True, slots=True)
class SourceStep(ExpertStep):
    """One training sample from a source."""

    listed: bool

    def messages(self, context: ContextPolicy) -> tuple[list[dict[str, Any]], list[bytes]]:
        """If there is no list of elements, the prompt has no screen text, whatever the style."""
        shown = context if self.listed else replace(context, screen_style="none")
        return ExpertStep.messages(self, shown)

    def write_response(self, context: ContextPolicy, thought: str | None = None) -> str:
        return write_recorded(self.action, self.screen, context, thought)


def recorded_task(source: str, episode: str, goal: str, steps: int, app: str = "", feasible: bool = True) -> Task:
    return Task(f"{source}/{episode}", source, goal, {}, 0, max(steps, 1), source, app, feasible)


def expand(demo: Demonstration, context: ContextPolicy, counts: Counts) -> Iterator[SourceStep]:
    """The samples of an episode for prompts of `context`. Rejected steps are counted.

    Only as many earlier screenshots are kept as `context` shows.
    """
    turns: list[Turn] = []
    kept = 0
    for index, step in enumerate(demo.steps):
        screen = _screen(step.xml, step.width, step.height)
        seen = Observation(step.screenshot, step.width, step.height, step.xml, step.app, index)
        reason, written = _write_response(step, screen, context)
        if reason:
            counts.rejected_steps[reason] += 1
        else:
            yield SourceStep(demo.task, tuple(turns), seen, screen, step.action, step.listed)
            kept += 1
            if step.instruction:
                task = replace(demo.task, instruction=step.instruction)
                yield SourceStep(task, (), seen, screen, step.action, step.listed)
                kept += 1
        past = replace(seen, xml="")
        turns.append(Turn(past, written, step.thought, step.action, describe(step.action, screen), step.note))
        if (older := len(turns) - max(context.screenshots, 1)) >= 0:
            turns[older] = replace(turns[older], observation=replace(turns[older].observation, screenshot=b""))
    if demo.fault:
        counts.rejected_steps[demo.fault] += 1
        if demo.lost:
            counts.rejected_steps["follows a step that could not be converted"] += demo.lost
    counts.steps += kept
    if kept:
        counts.episodes += 1
    else:
        counts.rejected_episodes["no step could be used"] += 1


def _screen(xml: str, width: int, height: int) -> Screen:
    return parse_screen(xml, width, height) if xml else Screen((), width, height)


def write_recorded(action: Action, screen: Screen, context: ContextPolicy, thought: str | None = None) -> str:
    """The response for a recorded action, which must touch the same element.

    A response that names an element touches its center; if another element is there, the response gives the exact point
    instead. Raises ValueError if the action cannot be expressed, such as a touch for which no mark stands.
    """
    written = context.write_response(action, screen, thought)
    if not context.names_elements or not isinstance(action, Tap | LongPress):  # the other formats write points
        return written
    if _touches_same_element(written, action, screen, context):
        return written
    if context.grounding == "mark":
        raise ValueError(NO_MARK)
    return context.write_response(action, Screen((), screen.width, screen.height), thought)


def _touches_same_element(written: str, touch: Tap | LongPress, screen: Screen, context: ContextPolicy) -> bool:
    touched = screen.at(touch.x, touch.y)
    if touched is None:  # the response names no element
        return True
    read = context.parse(written, screen).action
    same = isinstance(read, Tap | LongPress) and screen.at(read.x, read.y) is touched
    return same and not _USES[touch.kind].isdisjoint(touched.actions)


def _write_response(step: RecordedStep, screen: Screen, context: ContextPolicy) -> tuple[str, str]:
    """The reason for rejecting the step ("" for none), and its response in the history of later steps.

    The history uses the context's format, even if a policy replied in another one. Published formats write it when the
    prompt is built, in the size at which the model sees the screenshot; the response is then "".
    """
    if isinstance(step.action, Invalid):
        return step.reject or INEXPRESSIBLE, step.response
    reason = step.reject
    ours = context.names_elements
    if ours and context.grounding == "mark" and not step.listed:
        reason = reason or NO_LIST
    try:
        written = write_recorded(step.action, screen, context)
    except ValueError:
        if not ours:
            return reason or INEXPRESSIBLE, ""
        return reason or NO_MARK, step.response or format_response(step.action, screen, "point")
    if context.parse(written, screen).action.kind != step.action.kind:
        return reason or INEXPRESSIBLE, (step.response or written) if ours else ""
    texts = "".join(value for value in astuple(step.action) if isinstance(value, str))
    if escape_tokens(texts) != texts:  # unlike prompts, responses are not cleaned
        reason = reason or CONTROL_TOKEN
    if not ours:
        return reason, ""
    return reason, f"<think>{step.thought}</think>{written}" if step.thought else written
