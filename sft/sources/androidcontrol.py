"""AndroidControl: GZIP TFRecord files with one episode per record.

There is one action, a JSON object, between two screenshots. Points are in pixels. A scroll's direction is that of the
content that becomes visible, so the finger moves the other way; its start and length are not recorded. Episodes are
successful demonstrations and end with a screenshot without an action, where the agent finishes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from mobilerl.envs.base import Action, Back, Finish, Home, Launch, LongPress, Tap, Type, Wait
from mobilerl.policy.actions import MIDDLE, Direction, swipe_from
from mobilerl.sft.sources.convert import Wanted, attempt, checked_png, column, relative, text_of, up_to_fault
from mobilerl.sft.sources.report import Counts, Reject
from mobilerl.sft.sources.schema import Demonstration, RecordedStep, recorded_task
from mobilerl.sft.sources.screens import UNREADABLE, forest_xml
from mobilerl.sft.sources.tfrecord import Features, features, records, tfrecord_files

NAME = "androidcontrol"
FINGER: dict[str, Direction] = {"up": "down", "down": "up", "left": "right", "right": "left"}
"""Scroll direction -> direction of the finger."""


def files(path: Path) -> list[Path]:
    return tfrecord_files(path, NAME)


def read(file: Path, wanted: Wanted, counts: Counts) -> Iterator[Demonstration]:
    for record in records(file, counts):
        demo = attempt(counts, _episode, record, wanted, counts)
        if demo is not None:
            yield demo


def _episode(record: bytes, wanted: Wanted, counts: Counts) -> Demonstration | None:
    fields = features(record)
    episode = str(column(fields, "episode_id", int, 1)[0])
    return demonstration(fields, episode, counts) if wanted(episode) else None


def demonstration(fields: Features, episode: str, counts: Counts) -> Demonstration:
    """The episode of a record. Notes on its steps are added to `counts`. Raises Reject."""
    goal = text_of(column(fields, "goal", bytes, 1)[0], "goal")
    screens = column(fields, "screenshots", bytes)
    actions = fields.get("actions", [])
    if len(screens) != len(actions) + 1:
        raise Reject("episode with missing steps: the numbers of screenshots and actions do not match")
    widths = column(fields, "screenshot_widths", int, len(screens))
    heights = column(fields, "screenshot_heights", int, len(screens))
    instructions = column(fields, "step_instructions", bytes, len(actions)) if actions else []
    trees = column(fields, "accessibility_trees", bytes, len(screens)) if "accessibility_trees" in fields else None

    def step(i: int) -> RecordedStep:
        width, height = widths[i], heights[i]
        png = checked_png(screens[i], width, height)
        action = convert_action(actions[i], width, height) if i < len(actions) else Finish()
        xml, app = _elements(trees[i], counts) if trees else ("", "")
        # An instruction repeated at a neighboring step describes several actions.
        neighbors = instructions[max(i - 1, 0) : i] + instructions[i + 1 : i + 2]
        single = i < len(actions) and instructions[i] not in neighbors
        instruction = instructions[i].decode("utf-8", "replace").strip() if single else ""
        return RecordedStep(png, width, height, action, xml, bool(xml), app, instruction)

    steps, fault, lost = up_to_fault(partial(step, i) for i in range(len(screens)))
    return Demonstration(recorded_task(NAME, episode, goal, len(screens)), steps, fault, lost)


def _elements(tree: bytes, counts: Counts) -> tuple[str, str]:
    """XML and app, both "" if the tree cannot be read, which is counted as a note."""
    try:
        return forest_xml(tree)
    except ValueError:
        counts.notes[UNREADABLE] += 1
        return "", ""


def convert_action(data: Any, width: int, height: int) -> Action:
    """Converts an action on a screen of `width` x `height` px. Raises Reject."""
    try:
        fields = json.loads(data)
    except (TypeError, ValueError, RecursionError):
        raise Reject("action is not JSON") from None
    if not isinstance(fields, dict):
        raise Reject("action is not a JSON object")
    match fields.get("action_type"):
        case "click":
            return Tap(relative(fields.get("x"), width), relative(fields.get("y"), height))
        case "long_press":
            return LongPress(relative(fields.get("x"), width), relative(fields.get("y"), height))
        case "scroll":
            direction = fields.get("direction")
            if not isinstance(direction, str) or direction not in FINGER:
                raise Reject("scroll without a known direction")
            return swipe_from(MIDDLE, MIDDLE, FINGER[direction], "medium", width, height)
        case "open_app":
            return Launch(text_of(fields.get("app_name"), "app_name"))
        case "input_text":
            return Type(text_of(fields.get("text"), "text to type"))
        case "navigate_home":
            return Home()
        case "navigate_back":
            return Back()
        case "wait":
            return Wait()
        case "type":
            raise Reject("action type 'type' is a tap, a text and Enter in one")
        case _:
            raise Reject("unknown action type")
