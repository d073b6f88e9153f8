"""Tasks from a file of instructions."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mobilerl.envs.base import Task
from mobilerl.envs.text_files import read_text

SUITE = "instructions"
Line = Annotated[str, Field(min_length=1)]
"""A command line for the device's shell."""
PATTERNS = {
    "id": "a name of letters, digits, _, - and .",
    "app": "a package, such as com.android.settings",
    "start": "a path, such as /list",
}
"""What the fields with a pattern may be, in words."""
HEADER = re.compile(r"\s*\[\[\s*task\s*\]\]")


class BareInstruction(BaseModel):
    """An instruction for the agent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    instruction: Annotated[str, Field(min_length=1)]
    id: Annotated[str, Field(pattern=r"^[\w.\-]+$")] = ""
    """Name of its group and metrics; by default its number in the file."""
    split: Literal["train", "test"] = "train"
    """`test` tasks are used only for evaluation (`eval.every`)."""
    app: str = ""
    max_steps: Annotated[int, Field(ge=1)] = 20


class Instruction(BareInstruction):
    """How to prepare the device for an instruction, and how to check the result."""

    reset: tuple[Line, ...] = ()
    """Commands run before the episode, in this order. Each must succeed."""
    app: Annotated[str, Field(pattern=r"^$|^[A-Za-z]\w*(\.[A-Za-z]\w*)+$")] = ""
    """Package of the app in front at the start (stopped first). Without one, the home screen is in front."""
    start: tuple[Line, ...] = ()
    """Commands that open the app, such as `am start -a android.intent.action.VIEW -d ...`; by default its icon."""
    check: tuple[Line, ...] = ()
    """Commands that must all succeed (exit code 0) once the agent has declared the task done."""
    answer: str = ""
    """Text that the agent's answer must contain, ignoring case."""

    @model_validator(mode="after")
    def _start_needs_app(self) -> Instruction:
        if self.start and not self.app:
            raise ValueError("`start` needs `app`, the package that it opens")
        return self

    @property
    def checked(self) -> bool:
        return bool(self.check or self.answer)


T = TypeVar("T", bound=BareInstruction)


class InstructionFile(BaseModel, Generic[T]):
    """`apps` maps names under the icons to packages, for the action that opens an app by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    apps: Mapping[str, str] = {}
    task: tuple[T, ...] = ()


def read(path: str | Path) -> InstructionFile[Instruction]:
    """Reads a TOML file with `[[task]]` and `[apps]`, or a JSONL file of tasks. Raises ValueError for bad content."""
    return read_as(Instruction, path)


def read_as(kind: type[T], path: str | Path, check: Callable[[T], None] = lambda task: None) -> InstructionFile[T]:
    """As `read`, with tasks of a `kind`. A ValueError of `check` is raised with the place in the file."""
    path, make = Path(path), partial(_instruction, kind, check)
    try:
        found = _jsonl(path, make) if path.suffix == ".jsonl" else _toml(path, make)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not found.task:
        raise ValueError(f"{path} has no tasks: write a [[task]] table with an `instruction` for each")
    ids = [task.id for task in found.task]
    if twice := next((name for name in ids if ids.count(name) > 1), None):
        raise ValueError(f"{path}: two tasks have the id {twice!r}")
    return found


def _toml(path: Path, make: Callable[[Any, int, str], T]) -> InstructionFile[T]:
    text = read_text(path)
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from None
    raw = content.get("task", [])
    tasks = raw if isinstance(raw, list) else [raw]
    places = [f"{path}, task {number}" for number in range(1, 1 + len(tasks))]
    lines = [number for number, line in enumerate(text.splitlines(), 1) if HEADER.match(line)]
    if len(lines) == len(tasks):
        places = [f"{path}, line {line}, task {number}" for number, line in enumerate(lines, 1)]
    made = tuple(make(task, number, places[number - 1]) for number, task in enumerate(tasks, 1))
    try:
        return InstructionFile(**{**content, "task": made})
    except ValidationError as error:
        raise ValueError(f"{path}: {_describe_error(error, InstructionFile)}") from None


def _jsonl(path: Path, make: Callable[[Any, int, str], T]) -> InstructionFile[T]:
    def tasks() -> Iterator[T]:
        for number, line in enumerate(read_text(path).splitlines(), 1):
            where = f"{path}, line {number}"
            if not line.strip():
                continue
            try:
                yield make(json.loads(line), number, where)
            except json.JSONDecodeError as error:
                raise ValueError(f"{where}: {error}") from None

    return InstructionFile(task=tuple(tasks()))


def _instruction(kind: type[T], check: Callable[[T], None], content: Any, number: int, where: str) -> T:
    if not isinstance(content, Mapping):
        raise ValueError(f"{where}: a task is a table of fields, not {content!r}")
    try:
        made = kind(**{"id": str(number), **content})
        check(made)
    except ValidationError as error:
        raise ValueError(f"{where}: {_describe_error(error, kind)}") from None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return made


def _describe_error(error: ValidationError, kind: type[BaseModel]) -> str:
    errors = error.errors()
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])  # "missing" may be one misspelt
    field = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(field, kind.model_fields, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"fields are {', '.join(kind.model_fields)}"
        return f"there is no field {field!r}; {hint}"
    if first["type"] == "tuple_type":
        return f"{field}: it must be a list, as in [{json.dumps(first['input'], default=str)}]"
    if first["type"] == "string_pattern_mismatch" and field in PATTERNS:
        return f"{field}: {first['input']!r} is not {PATTERNS[field]}"
    return f"{field + ': ' if field else ''}{first['msg'].removeprefix('Value error, ')}"


def make_task(instruction: Instruction) -> Task:
    lists = {name: list(getattr(instruction, name)) for name in ("reset", "start", "check")}  # as JSON has them
    return Task(
        id=f"{SUITE}/{instruction.id}",
        template=instruction.id,
        instruction=instruction.instruction,
        params={**lists, "answer": instruction.answer, "split": instruction.split},
        seed=0,
        max_steps=instruction.max_steps,
        suite=SUITE,
        app=instruction.app,
    )
