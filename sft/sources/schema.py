"""The one form that every source is brought into: episodes of recorded steps, and the training samples made of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from envs.base import ACTION_TYPES, Action, Invalid, LongPress, Observation, Tap, Task
from mobilerl.agent.actions import Grounding, describe, format_reply, parse_reply
from mobilerl.agent.context import ContextPolicy, Turn
from mobilerl.agent.defuse import without_tokens
from mobilerl.agent.screen import Screen, parse_screen
from sft.samples import ExpertStep
from sft.sources.report import Counts

MARK_NEEDS_LIST = "no list of screen elements, which mark grounding needs"
NO_MARK = "no mark means what was touched"
UNWRITABLE = "action cannot be written as a reply"
UNSPEAKABLE = "text with a control token of the model, or with half a character"
_USES = {"tap": {"click", "check", "edit"}, "long_press": {"long-click"}}
"""What an element must be good for, for a touch of it to mean the whole of it."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One screen of a recorded episode and what was done on it."""

    screenshot: bytes
    """PNG, known to decode to `width` x `height` px."""
    width: int
    height: int
    action: Action
    xml: str = ""
    """The screen's elements as a uiautomator dump; "" where nothing is known of them."""
    listed: bool = False
    """Whether `xml` is the phone's own list, as a policy would see it: only then do prompts show it. Elements that were
    made from the picture afterwards still name what a tap hits."""
    app: str = ""
    instruction: str = ""
    """What this one step does, in words, where the source has it and it tells of no other step."""
    thought: str = ""
    response: str = ""
    """What a policy wrote at this step; "" for a person's."""
    note: str = ""
    """Why the phone did not carry the action out; "" when it did."""
    reject: str = ""
    """Why the step must not be imitated; "" if it may. It stays in the history of later steps."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A recorded episode. `steps` ends before the first step that could not be converted, if there is one."""

    task: Task
    """`id` is unique within the source."""
    steps: tuple[RecordedStep, ...]
    fault: str = ""
    """Why the step after the last could not be converted."""
    lost: int = 0
    """Steps after that one: their history would have a gap."""


@dataclass(frozen=True, slots=True)
class SourceStep(ExpertStep):
    """One training sample. `sft.samples.encode` takes it as it takes any expert step."""

    source: str
    episode: str
    split: str
    index: int
    """Of the step within its episode."""
    level: str
    """"episode": the goal of the whole episode, with history. "step": an instruction for this step alone."""
    listed: bool

    def messages(self, context: ContextPolicy) -> tuple[list[dict[str, Any]], list[bytes]]:
        """Without a list of elements the prompt has no screen text, whatever the style of the others."""
        shown = context if self.listed else replace(context, screen_style="none")
        return ExpertStep.messages(self, shown)

    def reply(self, context: ContextPolicy, thought: str | None = None) -> str:
        return reply_of(self.action, self.screen, context.grounding, thought)


def recorded_task(source: str, episode: str, goal: str, steps: int, app: str = "", feasible: bool = True) -> Task:
    return Task(f"{source}/{episode}", source, goal, {}, 0, max(steps, 1), source, app, feasible)


# --- an episode -> samples ---------------------------------------------------------------------------------------


def expand(
    demo: Demonstration, source: str, split: str, context: ContextPolicy, low_level: bool, counts: Counts
) -> Iterator[SourceStep]:
    """The samples of an episode for prompts of `context`. What is left out is counted.

    Earlier screenshots are kept only as far back as `context` shows them.
    """
    turns: list[Turn] = []
    kept = 0
    for index, step in enumerate(demo.steps):
        screen = _screen(step.xml, step.width, step.height)
        seen = Observation(step.screenshot, step.width, step.height, step.xml, step.app, index)
        reason, written = _written(step, screen, context.grounding)
        if reason:
            counts.reject_steps(reason)
        else:
            about = (source, demo.task.id, split, index)
            yield SourceStep(demo.task, tuple(turns), seen, screen, step.action, *about, "episode", step.listed)
            kept += 1
            if low_level and step.instruction:
                task = replace(demo.task, instruction=step.instruction)
                yield SourceStep(task, (), seen, screen, step.action, *about, "step", step.listed)
                kept += 1
        past = replace(seen, xml="")
        turns.append(Turn(past, written, step.thought, step.action, describe(step.action, screen), step.note))
        if (older := len(turns) - max(context.screenshots, 1)) >= 0:
            turns[older] = replace(turns[older], observation=replace(turns[older].observation, screenshot=b""))
    if demo.fault:
        counts.reject_steps(demo.fault)
        if demo.lost:
            counts.reject_steps("follows a step that could not be converted", demo.lost)
    counts.steps += kept
    if kept:
        counts.episodes += 1
    else:
        counts.reject_episode("no step could be used")


def _screen(xml: str, width: int, height: int) -> Screen:
    return parse_screen(xml, width, height) if xml else Screen((), width, height)


def reply_of(action: Action, screen: Screen, grounding: Grounding, thought: str | None = None) -> str:
    """The reply that says a recorded action, of which a touch meets the element that was touched.

    A reply means the centre of the element it names, where another one may lie: then the exact point is written. Raises
    ValueError for an action that cannot be written, as a mark that would mean another element.
    """
    written = format_reply(action, screen, grounding, thought)
    if not isinstance(action, Tap | LongPress) or _meets_the_same(written, action, screen, grounding):
        return written
    if grounding == "mark":
        raise ValueError(NO_MARK)
    return format_reply(action, Screen((), screen.width, screen.height), grounding, thought)


def _meets_the_same(written: str, touch: Tap | LongPress, screen: Screen, grounding: Grounding) -> bool:
    touched = screen.at(touch.x, touch.y)
    if touched is None:  # then the reply names no element
        return True
    read = parse_reply(written, screen, grounding, screen.width, screen.height).action
    same = isinstance(read, Tap | LongPress) and screen.at(read.x, read.y) is touched
    return same and not _USES[touch.kind].isdisjoint(touched.actions)


def _written(step: RecordedStep, screen: Screen, grounding: Grounding) -> tuple[str, str]:
    """Why the step is no sample ("" if it is one), and its reply as the history of later steps tells it.

    The history has the context's grounding, whatever a policy wrote in another one.
    """
    if isinstance(step.action, Invalid):
        return step.reject or UNWRITABLE, step.response
    reason = step.reject
    if grounding == "mark" and not step.listed:
        reason = reason or MARK_NEEDS_LIST
    try:
        written = reply_of(step.action, screen, grounding)
    except ValueError:  # a point that no mark stands for
        return reason or NO_MARK, step.response or format_reply(step.action, screen, "point")
    read = parse_reply(written, screen, grounding, step.width, step.height).action
    if read.kind != step.action.kind:
        return reason or UNWRITABLE, step.response or written
    if without_tokens(written) != written:  # prompts are cleaned of these, a reply is learned as it is
        reason = reason or UNSPEAKABLE
    return reason, f"<think>{step.thought}</think>{written}" if step.thought else written


# --- samples as rows ---------------------------------------------------------------------------------------------


def row_of(step: SourceStep) -> dict[str, Any]:
    """Plain values, for `datasets`. docs/data.md describes the fields."""
    return {
        "source": step.source, "episode": step.episode, "split": step.split, "index": step.index, "level": step.level,
        "task": json.dumps({name: _plain(getattr(step.task, name)) for name in Task.__dataclass_fields__}),
        **_observation_row(step.observation), "xml": step.observation.xml, "listed": step.listed,
        "action": json.dumps(asdict(step.action)),
        "turns": [
            {**_observation_row(turn.observation), "step": turn.observation.step, "response": turn.response,
             "thought": turn.thought, "action": json.dumps(asdict(turn.action)), "summary": turn.summary,
             "note": turn.note}
            for turn in step.turns
        ],
    }  # fmt: skip


def step_of(row: Mapping[str, Any]) -> SourceStep:
    """The inverse of `row_of`, in rows that `datasets` gave back."""
    turns = tuple(
        Turn(_observation(t, "", t["step"]), t["response"], t["thought"], _action(t["action"]), t["summary"], t["note"])
        for t in row["turns"]
    )
    return SourceStep(
        Task(**json.loads(row["task"])), turns, _observation(row, row["xml"], row["index"]),
        _screen(row["xml"], row["width"], row["height"]), _action(row["action"]),
        row["source"], row["episode"], row["split"], row["index"], row["level"], row["listed"],
    )  # fmt: skip


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _observation_row(seen: Observation) -> dict[str, Any]:
    return {"screenshot": seen.screenshot, "width": seen.width, "height": seen.height, "app": seen.app}


def _observation(row: Mapping[str, Any], xml: str, step: int) -> Observation:
    return Observation(row["screenshot"], row["width"], row["height"], xml, row["app"], step)


def _action(text: str) -> Action:
    fields = json.loads(text)
    return ACTION_TYPES[fields["kind"]](**fields)
