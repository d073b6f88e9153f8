"""Android in the Wild: GZIP TFRecord files with one step per record; the steps of an episode are consecutive.

Points are (y, x) from 0 to 1. A gesture has a touch and a lift point; it is a tap if they are at most 0.04 apart (the
rule of the data set's own evaluation), else a swipe. Screenshots are raw pixels. There is no UI tree: the annotations
were derived from the screenshot and only name the target of a tap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from mobilerl.envs.base import Action, Back, Enter, Finish, Home, Swipe, Tap, Type
from mobilerl.sft.sources.convert import Wanted, attempt, column, png_of_pixels, relative, text_of, up_to_fault
from mobilerl.sft.sources.report import Counts, Reject
from mobilerl.sft.sources.schema import Demonstration, RecordedStep, recorded_task
from mobilerl.sft.sources.screens import UNREADABLE, annotations_xml
from mobilerl.sft.sources.tfrecord import Features, features, records, tfrecord_files

NAME = "aitw"
TAP_DISTANCE = 0.04
TYPE, DUAL_POINT = 3, 4
INFEASIBLE = Finish("infeasible")
ACTIONS: dict[int, Action] = {5: Back(), 6: Home(), 7: Enter(), 10: Finish(), 11: INFEASIBLE}
MAX_STEPS = 500
"""Maximum steps of an episode; the longest one in the data set has far fewer."""


def files(path: Path) -> list[Path]:
    return tfrecord_files(path, NAME)


def read(file: Path, wanted: Wanted, counts: Counts) -> Iterator[Demonstration]:
    parsed = (attempt(counts, _features, record) for record in records(file, counts))
    for name, steps in groupby((fields for fields in parsed if fields is not None), key=_episode_id):
        if wanted(name) and (demo := attempt(counts, _demonstration, name, steps, counts)):
            yield demo


def _features(record: bytes) -> Features:
    fields = features(record)
    column(fields, "episode_id", bytes, 1)
    return fields


def _episode_id(fields: Features) -> str:
    return fields["episode_id"][0].decode("utf-8", "replace")


def _demonstration(name: str, records: Iterable[Features], counts: Counts) -> Demonstration:
    """Converts each step immediately: a PNG takes a tenth of the pixels' memory. Raises Reject."""
    steps: dict[int, RecordedStep | Reject] = {}
    goal, length = b"", 0
    for fields in records:
        number, stated = column(fields, "step_id", int, 1)[0], column(fields, "episode_length", int, 1)[0]
        if not 0 <= number < stated <= MAX_STEPS or number in steps or length not in (0, stated):
            raise Reject("episode with inconsistent step numbers")
        goal, length = _first(fields, "goal_info"), stated
        try:
            steps[number] = convert_step(fields, counts)
        except Reject as reason:
            steps[number] = reason
    instruction = text_of(goal, "goal")
    if len(steps) < length:
        raise Reject("episode with missing steps")
    feasible = all(getattr(step, "action", None) != INFEASIBLE for step in steps.values())
    kept, fault, lost = up_to_fault(partial(_or_raise, steps[i]) for i in range(length))
    return Demonstration(recorded_task(NAME, name, instruction, length, feasible=feasible), kept, fault, lost)


def _or_raise(step: RecordedStep | Reject) -> RecordedStep:
    if isinstance(step, Reject):
        raise step
    return step


def convert_step(fields: Features, counts: Counts) -> RecordedStep:
    """Converts one record. Notes on the step are added to `counts`. Raises Reject."""
    width, height = column(fields, "image/width", int, 1)[0], column(fields, "image/height", int, 1)[0]
    channels = column(fields, "image/channels", int, 1)[0]
    png = png_of_pixels(column(fields, "image/encoded", bytes, 1)[0], width, height, channels)
    action = convert_action(fields)
    app = _first(fields, "current_activity").decode("utf-8", "replace").partition("/")[0]
    return RecordedStep(png, width, height, action, _elements(fields, width, height, counts), app=app)


def convert_action(fields: Features) -> Action:
    """Converts the action of a record. Raises Reject."""
    kind = column(fields, "results/action_type", int, 1)[0]
    if kind in ACTIONS:
        return ACTIONS[kind]
    if kind == TYPE:
        return Type(text_of(column(fields, "results/type_action", bytes, 1)[0], "text to type"))
    if kind != DUAL_POINT:
        raise Reject("unknown action type")
    touch, lift = (column(fields, f"results/yx_{name}", float, 2) for name in ("touch", "lift"))
    (y, x), (y2, x2) = ([relative(value, 1) for value in point] for point in (touch, lift))
    return Tap(x, y) if math.dist(touch, lift) <= TAP_DISTANCE else Swipe(x, y, x2, y2)


def _first(fields: Features, name: str) -> bytes:
    """The first value of an optional feature, if it is bytes; otherwise b""."""
    value = next(iter(fields.get(name, [])), b"")
    return value if isinstance(value, bytes) else b""


def _elements(fields: Features, width: int, height: int, counts: Counts) -> str:
    """The annotations as XML; "" if there are none, or if they are inconsistent, which is counted as a note."""
    texts, kinds = (_texts(fields.get(f"image/ui_annotations_{name}", [])) for name in ("text", "ui_types"))
    boxes = fields.get("image/ui_annotations_positions", [])
    try:
        return annotations_xml(boxes, texts, kinds, width, height) if texts else ""
    except (TypeError, ValueError):
        counts.notes[UNREADABLE] += 1
        return ""


def _texts(values: Iterable[Any]) -> list[str]:
    return [t.decode("utf-8", "replace") if isinstance(t, bytes) else "" for t in values]
