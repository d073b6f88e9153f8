"""Trajectories for the page: an index of all of them, and their steps in scripts of `PART` trajectories each.

What was built from a file that has not changed since is not built again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mobilerl.records import Status
from mobilerl.train.boards import ADVANTAGES
from mobilerl.trajectory_files import read_records
from mobilerl.viewer.scripts import write_file, write_script
from mobilerl.viewer.steps import step_of

PART = 24
"""Trajectories in one script: opening one of them loads them all."""
FORMAT = 2
"""Of the cached indices; another number makes them be built anew."""
TASK_FIELDS = ("id", "template", "instruction", "app", "max_steps")


@dataclass(frozen=True, slots=True)
class Source:
    """A file of trajectories. `name` stands in links and file names, `screens` is the run's folder of its screens."""

    path: Path
    name: str
    label: str
    number: int | None
    screens: str


def sources_of(run: Path) -> list[Source]:
    """The iterations of a run, newest first, and then the evaluations that left their trajectories."""
    found = []
    for path in sorted((run / "trajectories").glob("iter-*.jsonl"), reverse=True):
        number = int(path.stem.removeprefix("iter-"))
        found.append(Source(path, path.stem, f"iteration {number}", number, "screens"))
    evaluations = sorted((run / "eval").glob("**/trajectories/iter-*.jsonl"))
    for i, path in enumerate(evaluations):
        folder = path.parent.parent.relative_to(run).as_posix()
        found.append(Source(path, f"eval-{i:03d}", folder.removeprefix("eval/"), None, quote(f"{folder}/screens")))
    return found


def write_episodes(run: Path, view: Path, folder: str) -> dict[str, Any]:
    """Writes the steps to `view/<folder>/` and returns the index:

    sources, tasks, devices: lists; rows: one [source, index, task, outcome, reward, steps, group, device] per
    trajectory, where source, task and device are places in those lists and trajectories of one source with the same
    group were played as one. ValueError names a file that cannot be read.
    """
    tasks, devices = _Places(), _Places()
    sources, rows = [], []
    for source in sources_of(run):
        built = _cached(run, view, folder, source)
        for index, (task, outcome, reward, steps, group, device) in enumerate(built["rows"]):
            there = built["tasks"][task]
            rows.append([len(sources), index, tasks.place(there["id"], there), outcome, reward, steps, group,
                         devices.place(device, device)])  # fmt: skip
        sources.append({"name": source.name, "label": source.label, "number": source.number, "part": PART,
                        "screens": source.screens, "total": len(built["rows"])})  # fmt: skip
    _remove_stale(view / folder, {s["name"] for s in sources})
    return {"sources": sources, "tasks": tasks.values, "devices": devices.values, "rows": rows}


class _Places:
    """Values in a list, each once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._place: dict[str, int] = {}

    def place(self, key: str, value: Any) -> int:
        if key not in self._place:
            self._place[key] = len(self.values)
            self.values.append(value)
        return self._place[key]


def _remove_stale(folder: Path, names: set[str]) -> None:
    """A resumed run may have dropped iterations."""
    for path in folder.glob("*.steps.json"):
        if path.name.removesuffix(".steps.json") not in names:
            path.unlink()
            for part in folder.glob(f"{path.name.removesuffix('.steps.json')}-part*.js"):
                part.unlink()


# --- one file ----------------------------------------------------------------------------------------------------


def _cached(run: Path, view: Path, folder: str, source: Source) -> dict[str, Any]:
    advantages = run / ADVANTAGES / f"{source.name}.json"
    stamp = [FORMAT, str(source.path.resolve()), *_stamp(source.path), *_stamp(advantages)]
    cache = view / folder / f"{source.name}.steps.json"
    if (known := _read_cache(cache)).get("stamp") == stamp and _parts_are_there(known, view / folder, source):
        return known
    built = _build(source, _advantages(advantages), view, folder) | {"stamp": stamp}
    write_file(cache, json.dumps(built, separators=(",", ":")))
    return built


def _read_cache(path: Path) -> dict[str, Any]:
    """What was built before; {} when it is not there or a power cut spoilt it."""
    try:
        known = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _parts_are_there(known: Mapping[str, Any], folder: Path, source: Source) -> bool:
    files = (folder / f"{source.name}-part{part}.js" for part in range(math.ceil(len(known["rows"]) / PART)))
    return all(file.is_file() and file.stat().st_size for file in files)


def _stamp(path: Path) -> tuple[int, int]:
    if not path.is_file():
        return 0, 0
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _advantages(path: Path) -> Mapping[str, list[float]]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(v, list) for v in content.values()):
        raise ValueError(f"{path}: an object of lists was expected, as mobilerl.train.boards writes it")
    return content


def _build(source: Source, advantages: Mapping[str, list[float]], view: Path, folder: str) -> dict[str, Any]:
    tasks, groups = _Places(), _Places()
    rows: list[list[Any]] = []
    bodies: list[dict[str, Any]] = []

    def write() -> None:
        write_script(view, f"{folder}/{source.name}-part{(len(rows) - 1) // PART}", bodies)
        bodies.clear()

    for number, record in read_records(source.path):
        try:
            bodies.append(_body(record, advantages.get(record["id"], [])))
            task = {k: record["task"][k] for k in TASK_FIELDS}
            rows.append([tasks.place(task["id"], task), _outcome(record), record["reward"], len(record["steps"]),
                         groups.place(_group(record), None), record["device_id"]])  # fmt: skip
        except (KeyError, TypeError) as error:
            where = f"{source.path}, line {number}"
            raise ValueError(f"{where}: a field is missing or has the wrong form: {error}") from error
        if len(bodies) == PART:
            write()
    if bodies:
        write()
    return {"tasks": tasks.values, "rows": rows}


def _group(record: Mapping[str, Any]) -> str:
    """A trajectory's id is that of its group and its own place in it."""
    prefix, dash, _ = record["id"].rpartition("-")
    return json.dumps([record["task"]["id"], prefix if dash else ""])


def _outcome(record: Mapping[str, Any]) -> str:
    """`success`, or how an episode without success ended."""
    status = record["status"]
    return "success" if record["reward"] > 0.5 and status != Status.INFRA_ERROR else status


def _body(record: Mapping[str, Any], advantages: list[float]) -> dict[str, Any]:
    padded = [*advantages, *[None] * len(record["steps"])]
    return {
        **{k: record[k] for k in ("id", "status", "device_id", "error", "wall_s")},
        "steps": [step_of(step, advantage) for step, advantage in zip(record["steps"], padded, strict=False)],
    }
