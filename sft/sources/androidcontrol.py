"""AndroidControl: GZIP TFRecord files in which every record is an episode.

Between two screenshots stands one action, a JSON object. Points are in pixels. A scroll's direction is that of the
content that comes into view, so the finger moves the other way; where it went down and how far it went is not recorded.
Episodes are successful demonstrations and end on a screenshot without an action: there the agent finishes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from envs.base import Action, Back, Finish, Home, Launch, LongPress, Tap, Type, Wait
from mobilerl.agent.swipes import MIDDLE, Direction, swipe_from
from sft.sources.convert import Wanted, attempt, column, relative, text_of, up_to_fault
from sft.sources.layout import UNREADABLE, forest_xml
from sft.sources.pictures import checked_png
from sft.sources.protos import features
from sft.sources.report import Counts, Reject
from sft.sources.schema import Demonstration, RecordedStep, recorded_task
from sft.sources.shards import check_first_record, records, tfrecord_files

NAME = "androidcontrol"
FINGER: dict[str, Direction] = {"up": "down", "down": "up", "left": "right", "right": "left"}
"""Where the finger moves, by where the screen is scrolled to."""
REQUIRED = ("episode_id", "goal", "screenshots", "actions")


def files(path: Path) -> list[Path]:
    return tfrecord_files(path, NAME)


def check(file: Path) -> None:
    check_first_record(file, NAME, REQUIRED)


def read(file: Path, wanted: Wanted, counts: Counts) -> Iterator[Demonstration]:
    for record in records(file, counts):
        demo = attempt(counts, _episode, record, wanted, counts)
        if demo is not None:
            yield demo


def _episode(record: bytes, wanted: Wanted, counts: Counts) -> Demonstration | None:
    try:
        fields = features(record)
    except ValueError:
        raise Reject("record is not a tf.train.Example") from None
    episode = str(column(fields, "episode_id", int, 1)[0])
    return demonstration(fields, episode, counts) if wanted(episode) else None


def demonstration(fields: dict[str, list[Any]], episode: str, counts: Counts) -> Demonstration:
    """The episode of a record's features; `counts` get the notes to its steps. Raises Reject."""
    goal = text_of(column(fields, "goal", bytes, 1)[0], "goal")
    screens = column(fields, "screenshots", bytes)
    actions = fields.get("actions", [])
    if len(screens) != len(actions) + 1:
        raise Reject("episode with missing steps: screenshots and actions do not go together")
    widths = column(fields, "screenshot_widths", int, len(screens))
    heights = column(fields, "screenshot_heights", int, len(screens))
    told = column(fields, "step_instructions", bytes, len(actions)) if actions else []
    trees = column(fields, "accessibility_trees", bytes, len(screens)) if "accessibility_trees" in fields else None

    def step(i: int) -> RecordedStep:
        width, height = widths[i], heights[i]
        png = checked_png(screens[i], width, height)
        action = convert_action(actions[i], width, height) if i < len(actions) else Finish()
        xml, app = _elements(trees[i], counts) if trees else ("", "")
        single = i < len(actions) and told[i] not in (told[i - 1 : i] + told[i + 1 : i + 2])
        instruction = told[i].decode("utf-8", "replace").strip() if single else ""
        return RecordedStep(png, width, height, action, xml, bool(xml), app, instruction)

    steps, fault, lost = up_to_fault(partial(step, i) for i in range(len(screens)))
    return Demonstration(recorded_task(NAME, episode, goal, len(screens)), steps, fault, lost)


def _elements(tree: bytes, counts: Counts) -> tuple[str, str]:
    """XML and app; nothing, which is noted, where the tree cannot be read."""
    try:
        return forest_xml(tree)
    except ValueError:
        counts.note_step(UNREADABLE)
        return "", ""


def convert_action(data: Any, width: int, height: int) -> Action:
    """An action of the data set on a screen of `width` x `height` px. Raises Reject."""
    try:
        fields = json.loads(data)
    except (TypeError, ValueError, RecursionError):
        raise Reject("action is not JSON") from None
    if not isinstance(fields, dict):
        raise Reject("action is not a JSON object")
    name = fields.get("action_type")
    if not isinstance(name, str) or name not in _ACTIONS:
        raise Reject(f"unknown action type {str(name)[:40]!r}")
    return _ACTIONS[name](fields, width, height)


Fields = dict[str, Any]


def _point(fields: Fields, width: int, height: int) -> tuple[int, int]:
    return relative(fields.get("x"), width), relative(fields.get("y"), height)


def _scroll(fields: Fields, width: int, height: int) -> Action:
    direction = fields.get("direction")
    if not isinstance(direction, str) or direction not in FINGER:
        raise Reject("scroll without a known direction")
    return swipe_from(MIDDLE, MIDDLE, FINGER[direction], "medium", width, height)


def _compound(fields: Fields, width: int, height: int) -> Action:
    raise Reject("action type 'type' is a tap, a text and Enter in one")


_ACTIONS: dict[str, Callable[[Fields, int, int], Action]] = {
    "click": lambda fields, width, height: Tap(*_point(fields, width, height)),
    "long_press": lambda fields, width, height: LongPress(*_point(fields, width, height)),
    "scroll": _scroll,
    "open_app": lambda fields, width, height: Launch(text_of(fields.get("app_name"), "app_name")),
    "input_text": lambda fields, width, height: Type(text_of(fields.get("text"), "text to type")),
    "type": _compound,
    "navigate_home": lambda fields, width, height: Home(),
    "navigate_back": lambda fields, width, height: Back(),
    "wait": lambda fields, width, height: Wait(),
}
