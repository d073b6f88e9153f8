"""Recordings of one's own: `episodes*.jsonl` with an episode per line, and the screens that they name in `screens/`.

`mobilerl convert` writes this format, from any other one as well (docs/data.md has all fields). Reading gives exactly
what was written. In memory are one episode and, when writing, nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from mobilerl.envs.base import COORD_MAX, Action, Invalid, Task
from mobilerl.policy.sanitize import encodable
from mobilerl.records.screens import ScreenFolder
from mobilerl.sft.sources.convert import Wanted, attempt, check_size, checked_png, size_of, up_to_fault
from mobilerl.sft.sources.report import Counts, Reject
from mobilerl.sft.sources.schema import Demonstration, RecordedStep
from mobilerl.sft.sources.trajectories import task_split

NAME = "jsonl"
EPISODES, SCREENS = "episodes.jsonl", "screens"
MISSING = "screenshot is missing in screens/"
NOT_IMITATED = "action that cannot be imitated"
FIXES = {
    "missing": "add it",
    "union_tag_not_found": "add `kind`",
    "extra_forbidden": "remove it, or correct its name",
    "unexpected_keyword_argument": "remove it, or correct its name",
}
"""What to do about a mistake, by pydantic's name of it; most messages say what is expected."""


def _not_empty(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty: write a text")
    return text


NotEmpty = Annotated[str, AfterValidator(_not_empty)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class StepLine(_Line):
    """A screen and the action taken on it; the fields of `RecordedStep`, with its defaults."""

    screen: str = ""
    """File in `screens/`; "" for a screen without an image, which needs `width` and `height`."""
    width: Annotated[int, Field(ge=1)] | None = None
    height: Annotated[int, Field(ge=1)] | None = None
    action: Annotated[Action, Field(discriminator="kind")]
    xml: str = ""
    listed: bool | None = None
    """null: whether there is `xml`."""
    app: str = ""
    instruction: str = ""
    thought: str = ""
    response: str = ""
    note: str = ""
    reject: str = ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("x", "y", "x2", "y2"):
            if not 0 <= getattr(self.action, name, 0) <= COORD_MAX:
                raise ValueError(f"action.{name} is {getattr(self.action, name)}: give 0 to {COORD_MAX}, relative")
        if Path(self.screen).name != self.screen:
            raise ValueError(f"screen is {self.screen!r}: name a file in {SCREENS}/, without its folder")
        if not self.screen and not (self.width and self.height):
            raise ValueError("there is no screen: name its file, or give width and height")
        if isinstance(self.action, Invalid) and not self.reject:
            raise ValueError("the action is invalid, so that it cannot be imitated: say why in reject")
        return self


class EpisodeLine(_Line):
    """An episode; the fields of `Task`, and what a source says of it."""

    id: NotEmpty
    goal: NotEmpty
    steps: tuple[StepLine, ...] = Field(strict=False)
    split: Literal["", "train", "validation", "test"] = ""
    app: str = ""
    feasible: bool = True
    suite: str = NAME
    template: str = NAME
    params: dict[str, Any] = {}
    seed: int = 0
    max_steps: Annotated[int, Field(ge=1)] | None = None
    fault: str = ""
    lost: Annotated[int, Field(ge=0)] = 0

    def task(self) -> Task:
        most = self.max_steps or max(len(self.steps), 1)
        named = (self.id, self.template, self.goal, self.params, self.seed, most, self.suite, self.app, self.feasible)
        return Task(*named)


def files(path: Path) -> list[Path]:
    found = [path] if path.is_file() else sorted(path.glob("episodes*.jsonl"))
    if not found:
        raise ValueError(f"{NAME}: no {EPISODES} in {path}; docs/data.md describes the format")
    return found


def read(file: Path, wanted: Wanted, counts: Counts) -> Iterator[Demonstration]:
    with open(file, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                episode = EpisodeLine.model_validate_json(line)
            except ValidationError as error:
                counts.faults.append(f"{file}, line {number}: {_explain(error)}")
                continue
            if demo := attempt(counts, _demonstration, episode, file.parent / SCREENS, wanted):
                yield demo


def _explain(error: ValidationError) -> str:
    """The first mistake: its field, what is wrong, and the fix."""
    found = error.errors(include_url=False)[0]
    field = ".".join(map(str, found["loc"])) or "the line"
    said = found["msg"].removeprefix("Value error, ")
    fix = f"; {FIXES[found['type']]}" if found["type"] in FIXES else ""
    return f"{field}: {said}{fix} (docs/data.md lists the fields)"


def _demonstration(line: EpisodeLine, screens: Path, wanted: Wanted) -> Demonstration | None:
    task = line.task()
    if encodable(task.id) != task.id:
        raise Reject("task id is not UTF-8")
    if not wanted(task.id, line.split or task_split(task)):
        return None
    steps, fault, lost = up_to_fault(partial(_step, step, screens) for step in line.steps)
    return Demonstration(task, steps, fault or line.fault, lost + line.lost if fault else line.lost)


def _step(line: StepLine, screens: Path) -> RecordedStep:
    png, width, height = b"", line.width or 0, line.height or 0
    if line.screen:
        try:
            png = (screens / line.screen).read_bytes()
        except (OSError, ValueError):  # ValueError: a name with a null character
            raise Reject(MISSING) from None
        if not (line.width and line.height):
            width, height = size_of(png)
        png = checked_png(png, width, height)
    check_size(width, height)
    values = line.model_dump(exclude={"screen", "width", "height", "action", "listed"})
    listed = bool(line.xml) if line.listed is None else line.listed
    return RecordedStep(png, width, height, line.action, listed=listed, **values)


def write(demos: Iterable[tuple[Demonstration, str]], folder: Path) -> None:
    """Writes episodes, each with its split, into a new folder, and each distinct screenshot once."""
    folder.mkdir(parents=True)
    screens = ScreenFolder(folder / SCREENS, sync=False)
    with open(folder / EPISODES, "xb") as file:
        for demo, split in demos:
            line = {"goal": demo.task.instruction, **asdict(demo.task), "split": split}
            del line["instruction"]
            steps = [_step_to_dict(step, screens) for step in demo.steps]
            line |= {"fault": demo.fault, "lost": demo.lost, "steps": steps}
            file.write(json.dumps(line, allow_nan=False).encode() + b"\n")


def _step_to_dict(step: RecordedStep, screens: ScreenFolder) -> dict[str, Any]:
    values = {name: getattr(step, name) for name in RecordedStep.__dataclass_fields__}
    png = values.pop("screenshot")
    return {"screen": f"{screens.put(png)}.png" if png else "", **values, "action": asdict(step.action)}
