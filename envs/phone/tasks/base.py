"""Task templates, and `Admin`: a phone's state over the transport."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Literal

from mobilerl.envs.base import Action, Finish, InfraError, Launch, Transport, Type
from mobilerl.envs.phone.languages import ENGLISH
from mobilerl.envs.phone.languages.language import Language
from mobilerl.envs.phone.tasks.ui import UI
from mobilerl.envs.phone.tasks.wordings import expand

INFEASIBLE = "infeasible"
"""What an agent must answer (`Finish.message`) when a task cannot be done."""

Row = dict[str, Any]


class Admin:
    """Reads and changes a phone's state the way a test harness does: over the transport, never through the screen."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def _run(self, *words: str) -> str:
        result = self.transport.shell(words)
        if result.exit_code != 0:
            raise InfraError(f"{' '.join(words[:2])} failed on {self.transport.serial}: {result.stderr.strip()}")
        return result.stdout

    def rows(self, uri: str) -> list[Row]:
        """All rows of `content://<uri>`, e.g. `notes/notes`, with int and float columns converted."""
        return parse_rows(self._run("content", "query", "--uri", f"content://{uri}"))

    def insert(self, uri: str, **values: str | int | float) -> None:
        self._run("content", "insert", "--uri", f"content://{uri}", *_bindings(values))

    def update(self, uri: str, row_id: int, **values: str | int | float) -> None:
        self._run("content", "update", "--uri", f"content://{uri}", "--where", f"_id={row_id}", *_bindings(values))

    def delete(self, uri: str, row_id: int | None = None) -> None:
        """Deletes one row, or all of them."""
        where = ["--where", f"_id={row_id}"] if row_id is not None else []
        self._run("content", "delete", "--uri", f"content://{uri}", *where)

    def delete_where(self, uri: str, unwanted: Callable[[Row], bool]) -> None:
        for row in self.rows(uri):
            if unwanted(row):
                self.delete(uri, row["_id"])

    def setting(self, space: str, key: str) -> str:
        return self._run("settings", "get", space, key).strip()

    def put_setting(self, space: str, key: str, value: str) -> None:
        self._run("settings", "put", space, key, value)

    def write_file(self, path: str, data: bytes) -> None:
        self.transport.push(data, path)

    def list_files(self, folder: str) -> list[str]:
        """Names in a folder, without the dot entries; [] when it does not exist."""
        result = self.transport.shell(("ls", folder))
        return result.stdout.split("\n")[:-1] if result.exit_code == 0 else []


def _bindings(values: Mapping[str, str | int | float]) -> list[str]:
    kinds = {str: "s", int: "i", float: "d"}
    return [word for key, v in values.items() for word in ("--bind", f"{key}:{kinds[type(v)]}:{v}")]


_ROW = re.compile(r"^Row: \d+ ", re.MULTILINE)
_COLUMN = re.compile(r"(?:^|, )([A-Za-z_][A-Za-z0-9_]*)=")


def parse_rows(text: str) -> list[Row]:
    """Reads what `content query` prints. The format is ambiguous, on Android too: a text may hold `, column=`.

    A column that comes twice is part of a text. The later one is kept as part of the first one's value, so that
    such a text can spoil a row but never make it look like the wanted one.
    """
    rows = []
    for chunk in _ROW.split(text)[1:]:
        parts = _COLUMN.split(chunk.rstrip("\n"))
        raw: dict[str, str] = {}
        for key, value in zip(parts[1::2], parts[2::2], strict=True):
            raw[key] = f"{raw[key]}, {key}={value}" if key in raw else value
        rows.append({key: _parse_value(value) for key, value in raw.items()})
    return rows


def _parse_value(raw: str) -> Any:
    # Only canonical numbers: "01" and "1.50" stay text: what was typed is compared.
    for kind in (int, float):
        try:
            if str(kind(raw)) == raw:
                return kind(raw)
        except ValueError:
            continue
    return raw


Actions = Callable[[UI, Row], Iterable[Action]]
"""Makes the next actions of a script."""
Step = str | Action | Actions
"""A step of a script: a widget to tap, an action, or a function of the screen and the task's parameters."""


class Template:
    """One kind of task. An instance of the class is one episode's task: `setup` may keep on it what `check` needs.

    Strings of `instructions`, `script`, `answer` and of the rows below may hold {parameters}.
    """

    app: ClassVar[str]
    """Label of the main app."""
    instructions: ClassVar[tuple[str, ...]] = ()
    """Phrasings, in which brackets hold alternatives: `[Turn|Switch] on {switch}`; the seed picks one of them all."""
    params: ClassVar[Mapping[str, Sequence[Any] | Callable[[random.Random], Any]]] = {}
    """Parameter -> the values it is drawn from, or a function that draws one."""
    script: ClassVar[tuple[Step, ...]] = ()
    """The expert's steps between opening the app and finishing."""
    steps: ClassVar[int]
    """Actions of the longest expert run, finish included (default: from the script). The budget is `2 * steps + 2`."""
    answer: ClassVar[str] = ""
    """The answer of an answer task; INFEASIBLE for what cannot be done."""
    demo: ClassVar[bool] = True
    """Whether the SFT demonstrations show it."""
    split: ClassVar[Literal["train", "dev", "test"]] = "train"
    """`dev`, `test`: never trained on; `dev` is for choosing settings, `test` for results."""
    installed: ClassVar[str] = ""
    """The app that is on the phone in the place of all others, if it is one of `EXTRA_APPS`."""
    feasible: ClassVar[bool]
    """Set from `answer`."""
    language: Language = ENGLISH
    """The language of the episode's phone; goals are English on every phone."""

    def __init_subclass__(cls) -> None:
        if "script" in cls.__dict__ and "steps" not in cls.__dict__:
            cls.steps = len(cls.script) + 2
        cls.feasible = cls.answer != INFEASIBLE

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.p = dict(params)
        self.thought = ""
        """What the expert must not forget at its newest action, such as a value for another app."""
        first = next(iter(self.wordings()), "").format(**params)
        self.purpose = first[:1].lower() + first[1:].rstrip("?")
        """What the expert's newest action is for, in the same words for every wording of the goal: by default the first
        wording."""

    @classmethod
    @cache
    def wordings(cls) -> tuple[str, ...]:
        """All phrasings without brackets."""
        return tuple(wording for pattern in cls.instructions for wording in expand(pattern))

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        """Draws parameters: plain JSON values, enough of them that some can be held out."""
        return {name: pool(rng) if callable(pool) else rng.choice(pool) for name, pool in cls.params.items()}

    def setup(self, phone: Admin) -> None:
        """Brings the freshly reset phone into the task's first state. The task must not be solved in it."""

    def done(self, phone: Admin, /) -> bool:
        """Whether the phone's state is the wanted one."""
        return True

    def check(self, phone: Admin, answer: str) -> bool:
        """Whether the task is done, from device state and the agent's last message."""
        return (not self.answer or self.says(answer, self.text(self.answer))) and self.done(phone)

    def conditions(self, phone: Admin, answer: str) -> list[bool]:
        """Which of the task's conditions hold, none of which does in the first state; a change that was not asked for
        makes all of them false. By default the check is the only one."""
        return [self.check(phone, answer)]

    def says(self, answer: str, wanted: str) -> bool:
        """Whether an answer is the wanted one, in English or as the phone shows it."""
        return any(same_answer(answer, reading) for reading in self.language.readings(wanted))

    def expert(self, ui: UI) -> Iterator[Action]:
        """A shortest script, from the home screen to `finish`."""
        yield Launch(self.app)
        for step in self.script:
            if isinstance(step, str):
                yield from ui.press(self.text(step))
            elif isinstance(step, Type):
                yield Type(self.text(step.text))
            elif callable(step):
                yield from step(ui, self.p)
            else:
                yield step
        yield Finish(ui.translate(self.text(self.answer)))

    def text(self, template: str) -> str:
        return template.format(**self.p)

    def row(self, columns: Mapping[str, Any]) -> Row:
        """`columns` with the parameters filled in, as `content query` would give them."""
        return {k: _parse_value(self.text(v)) if isinstance(v, str) else v for k, v in columns.items()}


class RowTemplate(Template):
    """A task about the rows of one table. After `setup`, `before` holds them, and `row_id` is the last one's id.

    `unique`: columns in which no other row has the task's value. `new_row`: the row that the task is about; None when
    it does not exist yet.
    """

    table: ClassVar[str]
    unique: ClassVar[tuple[str, ...]] = ()
    new_row: ClassVar[Row | None] = None

    def clear(self, phone: Admin) -> None:
        """Deletes the rows that could be taken for the task's."""
        phone.delete_where(self.table, lambda row: any(row[column] == self.p[column] for column in self.unique))

    def setup(self, phone: Admin) -> None:
        self.clear(phone)
        if self.new_row is not None:
            phone.insert(self.table, **self.row(self.new_row))
        self.before = phone.rows(self.table)
        self.row_id = self.before[-1]["_id"] if self.before else 0

    def conditions(self, phone: Admin, answer: str) -> list[bool]:
        """Those of `done`, if it is one of `helpers` that has some."""
        own = getattr(type(self).done, "conditions", None)
        return own(self, phone) if own else super().conditions(phone, answer)


def same_answer(answer: str, wanted: str | int) -> bool:
    """Compares answers without regard to case, surrounding punctuation and spacing."""
    return _plain(answer) == _plain(str(wanted))


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.casefold()).strip(" .!'\"$")
