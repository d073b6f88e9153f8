"""Android in the Wild: GZIP TFRecord files in which every record is a step; the steps of an episode follow each other.

Points are (y, x) in 0 to 1. A gesture has a touch and a lift point; it is a tap when they are at most 0.04 apart (in
those units, both axes alike), the rule of the data set's own evaluation, and else a swipe of the finger. Screenshots
are raw pixels. There is no UI tree: the annotations were made from the picture, and tell only what a tap hits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from envs.base import Action, Back, Enter, Finish, Home, Swipe, Tap, Type
from sft.sources.convert import Wanted, attempt, column, relative, text_of, up_to_fault
from sft.sources.layout import UNREADABLE, annotations_xml
from sft.sources.pictures import png_of_pixels
from sft.sources.protos import features
from sft.sources.report import Counts, Reject
from sft.sources.schema import Demonstration, RecordedStep, recorded_task
from sft.sources.shards import check_first_record, records, tfrecord_files

NAME = "aitw"
TAP_DISTANCE = 0.04
TYPE, DUAL_POINT, STATUS_COMPLETE, STATUS_IMPOSSIBLE = 3, 4, 10, 11
_PLAIN: dict[int, Action] = {
    5: Back(),
    6: Home(),
    7: Enter(),
    STATUS_COMPLETE: Finish(),
    STATUS_IMPOSSIBLE: Finish("infeasible"),
}
MISSING = "episode with missing steps"
LONGEST = 500
"""Steps of an episode; the data set's longest has far fewer."""
REQUIRED = ("episode_id", "goal_info", "image/encoded", "results/action_type")

Features = dict[str, list[Any]]


def files(path: Path) -> list[Path]:
    return tfrecord_files(path, NAME)


def check(file: Path) -> None:
    check_first_record(file, NAME, REQUIRED)


def read(file: Path, wanted: Wanted, counts: Counts) -> Iterator[Demonstration]:
    episode: _Episode | None = None
    for record in records(file, counts):
        fields = attempt(counts, _features, record)
        if fields is None:
            continue
        name = fields["episode_id"][0].decode("utf-8", "replace")
        if episode is None or name != episode.name:
            if demo := _closed(episode, counts):
                yield demo
            episode = _Episode(name, wanted(name))
        episode.add(fields, counts)
    if demo := _closed(episode, counts):
        yield demo


def _features(record: bytes) -> Features:
    try:
        fields = features(record)
    except ValueError:
        raise Reject("record is not a tf.train.Example") from None
    column(fields, "episode_id", bytes, 1)
    return fields


def _closed(episode: _Episode | None, counts: Counts) -> Demonstration | None:
    return attempt(counts, episode.demonstration) if episode and episode.wanted else None


class _Episode:
    """The steps of one episode as they come. Each is converted at once: a PNG takes a tenth of the pixels' space."""

    def __init__(self, name: str, wanted: bool) -> None:
        self.name, self.wanted = name, wanted
        self.goal = b""
        self.length = 0
        self.steps: dict[int, RecordedStep | Reject] = {}
        self.fault = ""

    def add(self, fields: Features, counts: Counts) -> None:
        if not self.wanted or self.fault:
            return
        try:
            number, length = column(fields, "step_id", int, 1)[0], column(fields, "episode_length", int, 1)[0]
            if not 0 <= number < length <= LONGEST or number in self.steps or self.length not in (0, length):
                raise Reject("steps whose numbers do not fit their episode")
            self.goal, self.length = _first(fields, "goal_info"), length
        except Reject as reason:
            self.fault, self.steps = str(reason), {}
            return
        try:
            self.steps[number] = convert_step(fields, counts)
        except Reject as reason:
            self.steps[number] = reason

    def demonstration(self) -> Demonstration:
        if self.fault:
            raise Reject(self.fault)
        goal = text_of(self.goal, "goal")
        if len(self.steps) < self.length:
            raise Reject(MISSING)
        feasible = all(getattr(s, "action", None) != _PLAIN[STATUS_IMPOSSIBLE] for s in self.steps.values())
        steps, fault, lost = up_to_fault(partial(_made, self.steps[i]) for i in range(self.length))
        return Demonstration(recorded_task(NAME, self.name, goal, self.length, feasible=feasible), steps, fault, lost)


def _made(step: RecordedStep | Reject) -> RecordedStep:
    if isinstance(step, Reject):
        raise step
    return step


def convert_step(fields: Features, counts: Counts) -> RecordedStep:
    """`counts` get the notes to the step. Raises Reject."""
    width, height = column(fields, "image/width", int, 1)[0], column(fields, "image/height", int, 1)[0]
    channels = column(fields, "image/channels", int, 1)[0]
    png = png_of_pixels(column(fields, "image/encoded", bytes, 1)[0], width, height, channels)
    action = convert_action(fields)
    app = _first(fields, "current_activity").decode("utf-8", "replace").partition("/")[0]
    return RecordedStep(png, width, height, action, _elements(fields, width, height, counts), app=app)


def convert_action(fields: Features) -> Action:
    """Raises Reject."""
    kind = column(fields, "results/action_type", int, 1)[0]
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == TYPE:
        return Type(text_of(column(fields, "results/type_action", bytes, 1)[0], "text to type"))
    if kind != DUAL_POINT:
        raise Reject(f"unknown action type {kind}")
    touch, lift = (column(fields, f"results/yx_{name}", float, 2) for name in ("touch", "lift"))
    (y, x), (y2, x2) = ([relative(value, 1) for value in point] for point in (touch, lift))
    if math.dist(touch, lift) <= TAP_DISTANCE:
        return Tap(x, y)
    return Swipe(x, y, x2, y2)


def _first(fields: Features, name: str) -> bytes:
    """The text of a feature that may be missing."""
    value = next(iter(fields.get(name, [])), b"")
    return value if isinstance(value, bytes) else b""


def _elements(fields: Features, width: int, height: int, counts: Counts) -> str:
    """The annotations as XML; "" where there are none, or they do not go together, which is noted."""
    texts, kinds = (
        [
            t.decode("utf-8", "replace") if isinstance(t, bytes) else ""
            for t in fields.get(f"image/ui_annotations_{name}", [])
        ]
        for name in ("text", "ui_types")
    )
    boxes = fields.get("image/ui_annotations_positions", [])
    try:
        return annotations_xml(boxes, texts, kinds, width, height) if texts else ""
    except (TypeError, ValueError):
        counts.note_step(UNREADABLE)
        return ""
