"""What a task template is, and its two helpers: `Admin` (state over the transport) and `Hand` (for experts)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
from xml.etree import ElementTree

from envs.base import (
    COORD_MAX,
    Action,
    Back,
    Enter,
    Finish,
    Home,
    InfraError,
    Launch,
    LongPress,
    Observation,
    Swipe,
    Tap,
    Transport,
    Type,
)
from envs.phone.popups import CATALOGUE

INFEASIBLE = "infeasible"
"""What an agent must answer (`Finish.message`) when a task cannot be done."""


class Admin:
    """Reads and changes a phone's state the way a test harness does: over the transport, never through the screen."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def _run(self, *words: str) -> str:
        result = self.transport.shell(words)
        if result.exit_code != 0:
            raise InfraError(f"{' '.join(words[:2])} failed on {self.transport.serial}: {result.stderr.strip()}")
        return result.stdout

    def rows(self, uri: str) -> list[dict[str, Any]]:
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


def parse_rows(text: str) -> list[dict[str, Any]]:
    """Reads what `content query` prints. The format is ambiguous, on Android too: a text may hold `, column=`.

    A column that comes twice was typed by somebody. The later one is kept as part of the first one's value, so that
    such a text can spoil a row but never make it look like the wanted one.
    """
    rows = []
    for chunk in _ROW.split(text)[1:]:
        parts = _COLUMN.split(chunk.rstrip("\n"))
        raw: dict[str, str] = {}
        for key, value in zip(parts[1::2], parts[2::2], strict=True):
            raw[key] = f"{raw[key]}, {key}={value}" if key in raw else value
        rows.append({key: _value(value) for key, value in raw.items()})
    return rows


def _value(raw: str) -> Any:
    # Only canonical numbers: "01" and "1.50" stay text, so that what was typed is what is compared.
    for kind in (int, float):
        try:
            if str(kind(raw)) == raw:
                return kind(raw)
        except ValueError:
            continue
    return raw


class Hand:
    """The expert's hand: finds things on the screen by what they say and returns the action that touches them.

    `observe` is called before every action of a script, so each line of a script sees the current screen.
    """

    def __init__(self) -> None:
        self._items: list[tuple[str, str, str, tuple[int, int, int, int]]] = []
        self._size = (1, 1)

    def observe(self, observation: Observation) -> None:
        self._size = (observation.width, observation.height)
        self._items = []
        for node in ElementTree.fromstring(observation.xml).iter("node"):
            left, top, right, bottom = (int(v) for v in re.findall(r"-?\d+", node.get("bounds", "")))
            box = (left, top, right, bottom)
            self._items.append((node.get("text", ""), node.get("content-desc", ""), node.get("class", ""), box))

    def has(self, name: str) -> bool:
        return self._find(name) is not None

    def texts(self) -> list[str]:
        """Everything that can be read on the screen, in order."""
        return [t or d for t, d, _, _ in self._items if t or d]

    def popup_button(self) -> str | None:
        """The declining button of the pop-up that covers the screen, if one does."""
        for popup in CATALOGUE:
            if self.has(popup.title) and self.has(popup.text) and self.has(popup.decline):
                return popup.decline
        return None

    # --- actions ---------------------------------------------------------------------------------------------

    def tap(self, name: str, nth: int = 0) -> Action:
        """Taps what reads `name` exactly (text or description); `nth` picks among several, -1 the last."""
        return Tap(*self._centre(name, nth))

    def long_press(self, name: str, nth: int = 0) -> Action:
        return LongPress(*self._centre(name, nth))

    def tap_field(self, nth: int = 0) -> Action:
        """Taps the nth edit field."""
        boxes = [box for _, _, cls, box in self._items if cls.endswith("EditText")]
        return Tap(*self._point(boxes[nth]))

    def type(self, text: str) -> Action:
        return Type(text)

    def launch(self, app: str) -> Action:
        return Launch(app)

    def back(self) -> Action:
        return Back()

    def home(self) -> Action:
        return Home()

    def enter(self) -> Action:
        return Enter()

    def finish(self, message: str = "") -> Action:
        return Finish(message)

    def scroll_down(self) -> Action:
        """Shows what is below: the finger moves from the middle of the screen to its top."""
        return Swipe(499, 499, 499, 0)

    def scroll_up(self) -> Action:
        return Swipe(499, 499, 499, 999)

    def reach(self, name: str, swipes: int = 8) -> Iterator[Action]:
        """Scrolls down until `name` can be seen (nothing to do when it already can)."""
        for _ in range(swipes):
            if self.has(name):
                return
            yield self.scroll_down()
        self._centre(name, 0)

    # --- finding ---------------------------------------------------------------------------------------------

    def _find(self, name: str, nth: int = 0) -> tuple[int, int, int, int] | None:
        boxes = [box for text, desc, _, box in self._items if name in (text, desc)]
        return boxes[nth] if -len(boxes) <= nth < len(boxes) else None

    def _centre(self, name: str, nth: int) -> tuple[int, int]:
        box = self._find(name, nth)
        if box is None:
            raise LookupError(f"the expert looked for {name!r} on a screen that reads {self.texts()}")
        return self._point(box)

    def _point(self, box: tuple[int, int, int, int]) -> tuple[int, int]:
        width, height = self._size
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        return round(x * COORD_MAX / width), round(y * COORD_MAX / height)


class Template:
    """One kind of task. An instance of the class is one episode's task: `setup` may keep on it what `check` needs.

    Class variables: `app` (label of the main app), `instructions` (phrasings with {param}s), `steps` (actions of the
    longest expert run, finish included; the step budget is `2 * steps + 2`), `demo` (the warm-up demonstrations show
    it), `split` ("test": never trained on), `feasible`.
    """

    app: ClassVar[str]
    instructions: ClassVar[tuple[str, ...]]
    steps: ClassVar[int]
    demo: ClassVar[bool] = True
    split: ClassVar[str] = "train"
    feasible: ClassVar[bool] = True

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.p = dict(params)

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        """Draws parameters: plain JSON values, enough of them that some can be held out."""
        raise NotImplementedError

    def setup(self, phone: Admin) -> None:
        """Brings the freshly reset phone into the task's first state. The task must not be solved in it."""

    def check(self, phone: Admin, answer: str) -> bool:
        """Whether the task is done, from device state and the agent's last message."""
        raise NotImplementedError

    def expert(self, ui: Hand) -> Iterator[Action]:
        """A shortest script, from the home screen to `finish`."""
        raise NotImplementedError


def same_answer(answer: str, wanted: str | int) -> bool:
    """Compares answers without regard to case, surrounding punctuation and spacing."""
    return _plain(answer) == _plain(str(wanted))


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.casefold()).strip(" .!'\"")
