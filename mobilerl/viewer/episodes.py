"""Trajectories for the page: an index of all of them, and scripts with the steps of `PART` trajectories each.

The model's inputs at each step, which are several times as large, have their own scripts.

A file that has not changed since this process built the page is not read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mobilerl.models.checkpoint_folder import iteration_of
from mobilerl.records import Status
from mobilerl.records.files import read_records
from mobilerl.training.run_log import ADVANTAGES, SHAPED_REWARDS
from mobilerl.viewer.evaluations import evaluation_folders, evaluation_name
from mobilerl.viewer.scripts import write_script
from mobilerl.viewer.steps import Decode, step_for_page

PART = 24
"""Number of trajectories per script; opening one of them loads the whole script."""
Cache = dict[Path, dict[str, Any]]
"""In-memory cache of what was built from each file: `stamp`, `tasks` and `rows`."""
FILES = "iter-*.jsonl"
TASK_FIELDS = ("id", "template", "instruction", "app", "max_steps")


# --- the index ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """A file of trajectories. `name` is used in links and file names; `screens` is the folder of its screens."""

    path: Path
    name: str
    label: str
    number: int | None
    screens: str

    def about(self, total: int) -> dict[str, Any]:
        """Data on the file for the page; `total` is its number of trajectories."""
        about = {"name": self.name, "label": self.label, "number": self.number, "screens": self.screens}
        return about | {"part": PART, "total": total}


def sources_of(run: Path) -> list[Source]:
    """Trajectory files of a run's iterations, newest first, and of evaluations that kept their trajectories."""
    found = []
    evaluations = evaluation_folders(run)
    files = {} if run in evaluations else {iteration_of(p.stem): p for p in (run / "trajectories").glob(FILES)}
    for number in sorted((n for n in files if n is not None), reverse=True):
        path = files[number]
        found.append(Source(path, path.stem, f"iteration {number}", number, "screens"))
    unfinished = {path.parent.parent for path in (run / "eval").glob(f"**/trajectories/{FILES}")}
    kept = [path for folder in sorted({*evaluations, *unfinished}) for path in folder.glob(f"trajectories/{FILES}")]
    for i, path in enumerate(sorted(kept)):
        folder = path.parent.parent
        screens = quote((folder / "screens").relative_to(run).as_posix())
        found.append(Source(path, f"eval-{i:03d}", evaluation_name(folder, run), None, screens))
    return found


@dataclass(slots=True)
class _Numbering:
    """Numbers distinct values in order of first appearance."""

    values: list[Any] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def number(self, key: str, value: Any) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]


def write_episodes(run: Path, view: Path, folder: str, cache: Cache, decode: Decode | None) -> dict[str, Any]:
    """Writes the steps to `view/<folder>/` and returns the index: lists `sources`, `tasks`, `devices` and `rows`.

    A row is [source, index, task, outcome, reward, steps, group, device] of one trajectory, where source, task and
    device are positions in those lists and group is a number within the source. Raises ValueError naming a file that
    cannot be read.
    """
    tasks, devices = _Numbering(), _Numbering()
    sources: list[dict[str, Any]] = []
    rows: list[list[Any]] = []
    for source in sources_of(run):
        built = build_source(source, run, view, folder, cache, decode)
        for index, (task, outcome, reward, steps, group, device) in enumerate(built["rows"]):
            about = built["tasks"][task]
            task, device = tasks.number(about["id"], about), devices.number(device, device)
            rows.append([len(sources), index, task, outcome, reward, steps, group, device])
        sources.append(source.about(len(built["rows"])))
    return {"sources": sources, "tasks": tasks.values, "devices": devices.values, "rows": rows}


# --- one file ----------------------------------------------------------------------------------------------------


def build_source(
    source: Source, run: Path, view: Path, folder: str, cache: Cache, decode: Decode | None
) -> dict[str, Any]:
    """Writes the steps of one file and returns its `tasks` and `rows`, from the cache if nothing has changed."""
    advantages_path = run / ADVANTAGES / f"{source.name}.json"
    rewards_path = run / SHAPED_REWARDS / f"{source.name}.json"
    stamp = (*_stamp(source.path), *_stamp(advantages_path), *_stamp(rewards_path), decode is None)
    if source.path in cache and cache[source.path]["stamp"] == stamp and (view / folder).is_dir():
        return cache[source.path]
    advantages, rewards = _read_by_id(advantages_path, list), _read_by_id(rewards_path, int | float)
    tasks, groups = _Numbering(), _Numbering()
    rows: list[list[Any]] = []
    parts = _Parts(view, f"{folder}/{source.name}")
    for number, record in read_records(source.path):
        try:
            parts.add(*_body(record, advantages.get(record["id"], []), rewards.get(record["id"]), decode))
            rows.append(_row(record, tasks, groups))
        except (KeyError, TypeError) as error:
            where = f"{source.path}, line {number}"
            raise ValueError(f"{where}: a field is missing or has the wrong type: {error}") from error
    parts.write()
    cache[source.path] = {"stamp": stamp, "tasks": tasks.values, "rows": rows}
    return cache[source.path]


@dataclass(slots=True)
class _Parts:
    """Writes trajectories in scripts of `PART` each: `NAME-part0` and, with the model's inputs, `NAME-input0`."""

    view: Path
    name: str
    _bodies: list[Any] = field(default_factory=list)
    _inputs: list[Any] = field(default_factory=list)
    _written: int = 0

    def add(self, body: Any, inputs: Any) -> None:
        self._bodies.append(body)
        self._inputs.append(inputs)
        if len(self._bodies) == PART:
            self.write()

    def write(self) -> None:
        if self._bodies:
            write_script(self.view, f"{self.name}-part{self._written}", self._bodies)
            write_script(self.view, f"{self.name}-input{self._written}", self._inputs)
            self._bodies, self._inputs, self._written = [], [], self._written + 1


def _row(record: Mapping[str, Any], tasks: _Numbering, groups: _Numbering) -> list[Any]:
    """Row of a trajectory: [task, outcome, reward, steps, group, device]."""
    task = {k: record["task"][k] for k in TASK_FIELDS}
    group = f"{task['id']} {record['id'].rpartition('-')[0]}"  # an id is the group's id, "-" and a number
    number = tasks.number(task["id"], task)
    outcome, steps = _outcome(record), len(record["steps"])
    return [number, outcome, record["reward"], steps, groups.number(group, None), record["device_id"]]


def _stamp(path: Path) -> tuple[int, int]:
    if not path.is_file():
        return 0, 0
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _read_by_id(path: Path, kind: Any) -> Mapping[str, Any]:
    """Reads values of one type by trajectory id; {} without a file. Raises ValueError for a damaged file."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(v, kind) for v in content.values()):
        raise ValueError(f"{path}: not in the format of docs/viewer.md")
    return content


def _outcome(record: Mapping[str, Any]) -> str:
    """Outcome of an episode: `success`, or its status."""
    status = record["status"]
    return "success" if record["reward"] > 0.5 and status != Status.INFRA_ERROR else status


def _body(
    record: Mapping[str, Any], advantages: list[float], shaped_reward: float | None, decode: Decode | None
) -> tuple[dict[str, Any], list[Any]]:
    """Data of a trajectory for the page, and the model's inputs at each step."""
    padded = [*advantages, *[None] * len(record["steps"])]
    steps = [step_for_page(step, a, decode) for step, a in zip(record["steps"], padded, strict=False)]
    about = {k: record[k] for k in ("id", "status", "device_id", "error", "wall_s")}
    body = {**about, "shaped_reward": shaped_reward, "steps": [shown for shown, _ in steps]}
    return body, [given for _, given in steps]
