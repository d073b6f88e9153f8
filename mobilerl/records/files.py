"""Reads and writes trajectories: `trajectories/iter-000010.jsonl` and `screens/<sha256>.png` in a run directory.

One line per trajectory, a JSON object in ASCII, with the fields of `Trajectory`, `Task`, `Step` and the actions;
docs/files.md shows one in full.

A screen is the SHA-256 of its PNG in lower-case hex, or "" if there was no screenshot. Reading returns exactly what was
written. Files are written atomically, and existing PNGs are not written again. Only evaluations append to their file as
episodes end (`append_trajectory`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from mobilerl.envs.base import ACTION_TYPES, Observation, Task
from mobilerl.records import Completion, Status, Step, Trajectory
from mobilerl.records.screens import ScreenFolder, ScreenStore
from mobilerl.system.atomic_files import write_atomic

SCHEMA = 1
_JSON_TYPES: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": int | float,
    "bool": bool,
    "Mapping[str, Any]": Mapping,
    "Mapping[str, float]": Mapping,
}
"""Accepted types of dataclass fields, by annotation."""
_T = TypeVar("_T")


# --- dicts -------------------------------------------------------------------------------------------------------


def trajectory_to_dict(trajectory: Trajectory, screens: ScreenStore) -> dict[str, Any]:
    """Converts a trajectory to JSON values and puts its screens into `screens`."""
    return {
        "schema": SCHEMA,
        "id": trajectory.id,
        "task": {**_fields(trajectory.task), "params": dict(trajectory.task.params)},
        "reward": trajectory.reward,
        "status": str(trajectory.status),
        "device_id": trajectory.device_id,
        "error": trajectory.error,
        "wall_s": trajectory.wall_s,
        "steps": [_step_to_dict(step, screens) for step in trajectory.steps],
    }


def trajectory_from_dict(record: Mapping[str, Any], screens: ScreenStore) -> Trajectory:
    """Inverse of `trajectory_to_dict`. Raises ValueError naming a field that is missing or wrong."""
    try:
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']!r}; this version of mobilerl reads schema {SCHEMA}")
        values = {name: record[name] for name in ("id", "reward", "device_id", "error", "wall_s")}
        task = _check_types(Task(**record["task"]))
        steps = tuple(_step_from_dict(step, screens) for step in record["steps"])
        return _check_types(Trajectory(task=task, steps=steps, status=Status(record["status"]), **values))
    except KeyError as error:
        raise ValueError(f"field {error} is missing or has an unknown value") from error
    except TypeError as error:
        raise ValueError(f"a field has the wrong type: {error}") from error


def _check_types(made: _T) -> _T:
    """Returns `made`. Raises ValueError if a field does not have its declared type."""
    for field in fields(cast("Any", made)):
        value, kind = getattr(made, field.name), _JSON_TYPES.get(str(field.type))
        if kind and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            raise ValueError(f"field {field.name!r} of {type(made).__name__} is {value!r:.60}; it must be {field.type}")
    return made


def _numbers(record: Mapping[str, Any], name: str, *kinds: type) -> tuple[Any, ...]:
    values = record[name]
    if not isinstance(values, list | tuple) or not set(map(type, values)) <= set(kinds):
        raise ValueError(f"field {name!r} is {values!r:.60}; it must be a list of numbers")
    return tuple(values)


def _fields(frozen: Any) -> dict[str, Any]:
    return {name: getattr(frozen, name) for name in frozen.__dataclass_fields__}


def _step_to_dict(step: Step, screens: ScreenStore) -> dict[str, Any]:
    def screen(png: bytes) -> str:
        return screens.put(png) if png else ""

    return {
        "observation": {**_fields(step.observation), "screenshot": screen(step.observation.screenshot)},
        "completion": _fields(step.completion),
        "images": [screen(png) for png in step.images],
        "thought": step.thought,
        "action": asdict(step.action),
        "timings": dict(step.timings),
        "note": step.note,
    }


def _step_from_dict(record: Mapping[str, Any], screens: ScreenStore) -> Step:
    def screen(digest: str) -> bytes:
        if not isinstance(digest, str):
            raise ValueError(f"{digest!r:.60} is not the name of a screen")
        return screens.get(digest) if digest else b""

    observation, completion, action = record["observation"], record["completion"], record["action"]
    return _check_types(
        Step(
            observation=_check_types(Observation(**{**observation, "screenshot": screen(observation["screenshot"])})),
            completion=_check_types(
                Completion(
                    prompt_ids=_numbers(completion, "prompt_ids", int),
                    token_ids=_numbers(completion, "token_ids", int),
                    logprobs=_numbers(completion, "logprobs", int, float),
                    version=completion["version"],
                    text=completion["text"],
                    cut_off=completion.get("cut_off", False),
                )
            ),
            images=tuple(screen(digest) for digest in record["images"]),
            thought=record["thought"],
            action=_check_types(ACTION_TYPES[action["kind"]](**action)),
            timings=record["timings"],
            note=record.get("note", ""),
        )
    )


# --- files -------------------------------------------------------------------------------------------------------


def save_trajectories(run_dir: Path | str, iteration: int, trajectories: Iterable[Trajectory]) -> Path:
    """Writes the trajectories of one iteration, screens first, and returns the path of the .jsonl file."""
    path = _file_of(Path(run_dir), iteration)
    screens = ScreenFolder(Path(run_dir) / "screens")
    lines = [_line(trajectory_to_dict(trajectory, screens)) for trajectory in trajectories]
    write_atomic(path, "".join(lines).encode("ascii"))
    return path


def append_trajectory(out: Path, trajectory: Trajectory) -> None:
    """Appends a trajectory to the file of an evaluation, screens first. An incomplete last line is removed."""
    path = _file_of(out, 0)
    line = _line(trajectory_to_dict(trajectory, ScreenFolder(out / "screens")))
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as f:
        f.truncate(_end_of_last_line(f))
        f.write(line.encode("ascii"))


def _file_of(folder: Path, iteration: int) -> Path:
    return folder / "trajectories" / f"iter-{iteration:06d}.jsonl"


def _end_of_last_line(f: BinaryIO) -> int:
    """Offset after the last newline, in bytes."""
    end = f.seek(0, os.SEEK_END)
    f.seek(max(end - 1, 0))
    if f.read(1) in (b"", b"\n"):
        return end
    f.seek(0)
    return f.read().rfind(b"\n") + 1


def trajectory_files(run_dir: Path) -> list[Path]:
    """Trajectory files of a run, oldest first. Raises ValueError if there are none."""
    files = sorted((run_dir / "trajectories").glob("iter-*.jsonl"))
    if not files:
        raise ValueError(f"{run_dir} holds no trajectories/iter-*.jsonl: name a run that saved trajectories")
    return files


def load_trajectories(path: Path | str) -> list[Trajectory]:
    """Reads the trajectories of a file. Raises ValueError naming file and line if it is damaged."""
    screens = ScreenFolder(Path(path).parent.parent / "screens")
    trajectories = []
    for number, record in read_records(path):
        try:
            trajectories.append(trajectory_from_dict(record, screens))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
    return trajectories


def read_records(path: Path | str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields line number and object of each line, without screens. Raises ValueError naming a damaged file and line."""
    with open(path, "rb") as f:
        for number, line in enumerate(f, start=1):
            try:
                record = json.loads(line, parse_constant=_reject_constant)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}, line {number}: not a JSON object: {error}") from error
            schema = record.get("schema") if isinstance(record, dict) else type(record).__name__
            if schema != SCHEMA:
                raise ValueError(
                    f"{path}, line {number}: schema {schema!r}; this version of mobilerl reads schema {SCHEMA}"
                )
            yield number, record


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _line(record: dict[str, Any]) -> str:
    """One line of JSON. Raises ValueError for values that JSON would change: tuples, keys other than strings, NaN."""
    try:
        params = record["task"]["params"]
        if json.loads(json.dumps(params)) != params:
            raise ValueError("task.params holds something other than plain JSON values (a tuple, or a key not text)")
        return json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n"
    except (TypeError, ValueError) as error:
        raise ValueError(f"trajectory {record['id']} cannot be saved: {error}") from error
