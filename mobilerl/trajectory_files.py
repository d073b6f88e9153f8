"""Trajectories on disk: `trajectories/iter-000010.jsonl` beside `screens/<sha256>.png` in a run directory.

One line per trajectory, a JSON object in ASCII; docs/files.md shows one in full. Schema 1:

    schema     1
    id, reward, status, device_id, error, wall_s          as in `Trajectory`
    task       every field of `envs.base.Task`
    steps      list of
        observation   {screenshot, width, height, xml, app, step}
        completion    {prompt_ids, token_ids, logprobs, version, text}
        images        list of screens, in the order of their placeholders in the prompt
        thought       text
        action        {kind, ...}, the fields of `envs.base.ACTION_TYPES[kind]`
        timings       {phase: seconds}
        note          why the action was not carried out; "" when it was, and in files older than the field

A screen is the SHA-256 of its PNG in lower-case hex, or "" where there was no screenshot. What is read back equals what
was written, bit for bit. Every file appears whole or not at all, and a PNG that is already there is not written again.
Only an evaluation on real phones adds to its file as episodes end (`append_trajectory`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from envs.base import ACTION_TYPES, Action, Observation, Task
from mobilerl.atomic_files import write_atomic
from mobilerl.records import Completion, Status, Step, Trajectory
from mobilerl.screen_files import ScreenFolder, ScreenStore

SCHEMA = 1
BLOCK = 65536
_KINDS: dict[str, Any] = {
    "str": str, "int": int, "float": int | float, "bool": bool, "Mapping[str, Any]": Mapping,
    "Mapping[str, float]": Mapping,
}  # fmt: skip
"""What the values of a dataclass's fields may be, by the fields' annotations."""
_T = TypeVar("_T")


# --- dicts -------------------------------------------------------------------------------------------------------


def trajectory_to_dict(trajectory: Trajectory, screens: ScreenStore) -> dict[str, Any]:
    """The trajectory as JSON values, its screens put into `screens`."""
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
    """The inverse of `trajectory_to_dict`. Raises ValueError naming the field that is missing or wrong."""
    try:
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']!r}; this version of mobilerl reads schema {SCHEMA}")
        return _checked(Trajectory(
            id=record["id"],
            task=_checked(Task(**record["task"])),
            steps=tuple(_step_from_dict(step, screens) for step in record["steps"]),
            reward=record["reward"],
            status=Status(record["status"]),
            device_id=record["device_id"],
            error=record["error"],
            wall_s=record["wall_s"],
        ))  # fmt: skip
    except KeyError as error:
        raise ValueError(f"field {error} is missing or has an unknown value") from error
    except TypeError as error:
        raise ValueError(f"a field has the wrong form: {error}") from error


def _checked(made: _T) -> _T:
    """`made`, whose fields came from JSON. Raises ValueError for one of another type than it is declared to have."""
    for field in fields(made):
        value, kind = getattr(made, field.name), _KINDS.get(field.type)
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

    observation, completion = record["observation"], record["completion"]
    return _checked(Step(
        observation=_checked(Observation(**{**observation, "screenshot": screen(observation["screenshot"])})),
        completion=_checked(Completion(
            prompt_ids=_numbers(completion, "prompt_ids", int),
            token_ids=_numbers(completion, "token_ids", int),
            logprobs=_numbers(completion, "logprobs", int, float),
            version=completion["version"],
            text=completion["text"],
        )),
        images=tuple(screen(digest) for digest in record["images"]),
        thought=record["thought"],
        action=_action_from_dict(record["action"]),
        timings=record["timings"],
        note=record.get("note", ""),
    ))  # fmt: skip


def _action_from_dict(record: Mapping[str, Any]) -> Action:
    return _checked(ACTION_TYPES[record["kind"]](**record))


# --- files -------------------------------------------------------------------------------------------------------


def save_trajectories(run_dir: Path | str, iteration: int, trajectories: Iterable[Trajectory]) -> Path:
    """Writes the trajectories of one iteration, screens first, and returns the path of the .jsonl file."""
    path = _file_of(Path(run_dir), iteration)
    screens = ScreenFolder(Path(run_dir) / "screens")
    lines = [_line(trajectory_to_dict(trajectory, screens)) for trajectory in trajectories]
    write_atomic(path, "".join(lines).encode("ascii"))
    return path


def append_trajectory(out: Path, trajectory: Trajectory) -> None:
    """Adds to the only file of an evaluation's folder, screens first. What a crash has left of a line is cut off."""
    path = _file_of(out, 0)
    line = _line(trajectory_to_dict(trajectory, ScreenFolder(out / "screens")))
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as f:
        f.truncate(_whole_lines(f))
        f.write(line.encode("ascii"))


def _file_of(folder: Path, iteration: int) -> Path:
    return folder / "trajectories" / f"iter-{iteration:06d}.jsonl"


def _whole_lines(f: BinaryIO) -> int:
    """Where the last whole line ends, in bytes."""
    end = f.seek(0, os.SEEK_END)
    while end > 0:
        start = max(end - BLOCK, 0)
        f.seek(start)
        newline = f.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def load_trajectories(path: Path | str) -> list[Trajectory]:
    """Reads a file of `save_trajectories`. Raises ValueError naming file and line where it cannot be read exactly."""
    screens = ScreenFolder(Path(path).parent.parent / "screens")
    trajectories = []
    for number, record in read_records(path):
        try:
            trajectories.append(trajectory_from_dict(record, screens))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
    return trajectories


def read_records(path: Path | str) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of each line, without its screens. Raises ValueError naming file and line."""
    with open(path, "rb") as f:
        for number, line in enumerate(f, start=1):
            try:
                record = json.loads(line, parse_constant=_refused)
            except (ValueError, RecursionError) as error:  # what is not UTF-8 is a ValueError, too
                raise ValueError(f"{path}, line {number}: not a JSON object: {error}") from error
            if not isinstance(record, dict) or record.get("schema") != SCHEMA:
                found = record.get("schema") if isinstance(record, dict) else type(record).__name__
                raise ValueError(
                    f"{path}, line {number}: schema {found!r}; this version of mobilerl reads schema {SCHEMA}"
                )
            yield number, record


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _line(record: dict[str, Any]) -> str:
    """One line of JSON. Refuses what would come back different: tuples in parameters, NaN, values JSON lacks."""
    try:
        params = record["task"]["params"]
        if json.loads(json.dumps(params)) != params:
            raise ValueError("task.params holds something other than plain JSON values (a tuple, or a key not text)")
        return json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n"
    except (TypeError, ValueError) as error:
        raise ValueError(f"trajectory {record['id']} cannot be saved: {error}") from error
