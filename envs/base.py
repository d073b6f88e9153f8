"""The contract between a phone and its driver: tasks, observations, actions, transports.

Everything here is plain frozen data, so that it can be written to disk, compared and sent between processes.
Coordinates in an action are integers 0-999 relative to the screen; only `Device` turns them into pixels.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

from PIL import Image

COORD_MAX = 999
"""Largest relative coordinate: pixel = v * size / 999."""


@dataclass(frozen=True, slots=True)
class Task:
    """One instance of a task template. `(template, params, seed)` determine it completely.

    `id` is unique within a suite and stable between processes; `max_steps` is the step budget of an episode.
    """

    id: str
    template: str
    instruction: str
    params: Mapping[str, Any]
    seed: int
    max_steps: int
    suite: str
    app: str = ""
    feasible: bool = True


@dataclass(frozen=True, slots=True)
class Tap:
    x: int
    y: int
    kind: Literal["tap"] = "tap"


@dataclass(frozen=True, slots=True)
class LongPress:
    x: int
    y: int
    kind: Literal["long_press"] = "long_press"


@dataclass(frozen=True, slots=True)
class Swipe:
    """The finger goes down at (x, y) and up at (x2, y2). Swiping up scrolls a list towards its end."""

    x: int
    y: int
    x2: int
    y2: int
    kind: Literal["swipe"] = "swipe"


@dataclass(frozen=True, slots=True)
class Type:
    """Replaces the text of the focused field. Does not press Enter."""

    text: str
    kind: Literal["type"] = "type"


@dataclass(frozen=True, slots=True)
class Launch:
    """Opens an app by the name under its icon."""

    app: str
    kind: Literal["launch"] = "launch"


@dataclass(frozen=True, slots=True)
class Back:
    kind: Literal["back"] = "back"


@dataclass(frozen=True, slots=True)
class Home:
    kind: Literal["home"] = "home"


@dataclass(frozen=True, slots=True)
class Enter:
    kind: Literal["enter"] = "enter"


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float = 1.0
    kind: Literal["wait"] = "wait"


@dataclass(frozen=True, slots=True)
class Finish:
    """The agent declares the task done. `message` is its answer to the user; answer tasks are scored on it."""

    message: str = ""
    kind: Literal["finish"] = "finish"


@dataclass(frozen=True, slots=True)
class Invalid:
    """The model's output could not be parsed as an action. `reason` is shown to the model at the next step."""

    reason: str
    kind: Literal["invalid"] = "invalid"
    why: str = ""
    """Kind of the reason, for statistics."""


Action = Tap | LongPress | Swipe | Type | Launch | Back | Home | Enter | Wait | Finish | Invalid
"""A discriminated union on `kind`."""

ACTION_TYPES: dict[str, type[Action]] = {
    str(cls.__dataclass_fields__["kind"].default): cls
    for cls in (Tap, LongPress, Swipe, Type, Launch, Back, Home, Enter, Wait, Finish, Invalid)
}


@dataclass(frozen=True, slots=True)
class Observation:
    """What the agent sees before a step. `screenshot` is PNG bytes (b"" when screenshots are switched off)."""

    screenshot: bytes = field(repr=False)
    width: int
    height: int
    xml: str = field(repr=False)
    app: str
    """Label of the foreground app, or its package name when the label is unknown."""
    step: int

    @property
    def image(self) -> Image.Image:
        """The screenshot as a Pillow image, which notebooks display. Raises ValueError when there is none."""
        if not self.screenshot:
            raise ValueError("this observation has no screenshot: its environment was told to take none")
        return Image.open(io.BytesIO(self.screenshot))


@dataclass(frozen=True, slots=True)
class StepResult:
    """`done` is true when the environment ends the episode by itself (a Finish, or the step budget is used up)."""

    observation: Observation
    done: bool
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase: `act`, `settle`, `observe`."""
    note: str = ""
    """Why the action was not carried out, as a message to the model; "" when it was."""
    finished: bool = False
    """Whether the task has come to its own end, as a game does, without an agent that says so."""


@dataclass(frozen=True, slots=True)
class Health:
    ok: bool
    reason: str = ""


class InfraError(RuntimeError):
    """The device, the network or the task's own set-up failed. Never the agent's fault, and never a reward of zero."""


class TaskFault(InfraError):
    """The task itself cannot run here: its own set-up or check raised an error. The device is not to blame."""


class NoScore(TaskFault):
    """The task has no check of its own, or its check could not be carried out. Raised by `MobileEnv.score`; a judge may
    give the reward instead."""


class FreeReward(TaskFault):
    """The task gives its reward before the agent has done anything, so nothing can be learned from it. Raised by
    `MobileEnv.reset`. Retrying the task, on this device or another, does not help."""


@runtime_checkable
class MobileEnv(Protocol):
    """One device, which runs one task at a time. Every method may raise `InfraError`.

    An environment that chooses the wording of the instruction in `reset` also has `instruction: str`, the text of the
    current episode; `as_worded` reads it. One that can leave out its screenshots has `draw(wanted: bool)`, which says
    whether later observations carry one; `draw_screenshots` calls it.
    """

    device_id: str

    async def reset(self, task: Task) -> Observation: ...
    async def step(self, action: Action) -> StepResult: ...
    async def score(self) -> float: ...
    async def close(self) -> None: ...
    async def health(self) -> Health: ...


def as_worded(env: MobileEnv, task: Task) -> Task:
    """`task` with the instruction that `env` gave it in `reset`, if that differs."""
    instruction = getattr(env, "instruction", "") or task.instruction
    return task if instruction == task.instruction else replace(task, instruction=instruction)


def draw_screenshots(env: MobileEnv, wanted: bool) -> None:
    """Lets `env` leave out screenshots that nothing would read, if it can."""
    if draw := getattr(env, "draw", None):
        draw(wanted)


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """Current state of one place of a fleet. `seconds` (by state) and `faults` grow while the process runs."""

    place: str
    """Name of the place; it stays the same when the device in it is replaced."""
    device_id: str
    state: str
    seconds: Mapping[str, float]
    faults: int
    reason: str
    """Reason of the last fault."""
    name: str = ""
    """What the user calls the device of this place, such as its serial."""


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """Something happened to a device. `str` is a line for the user."""

    device: str
    """What the user calls it, as in `DeviceReport.name`."""
    kind: Literal["failed", "quarantined", "replaced", "back"]
    """`failed` for the first time since it last worked or came back; `quarantined`, that is left alone for ever longer
    times; `replaced` by another one, or `back` itself, after it had been out of use."""
    reason: str = ""
    """Why, for the first two."""
    seconds: float = 0.0
    """The first time of the quarantine, or how long the device was out of use."""

    def __str__(self) -> str:
        reason = self.reason.removeprefix(f"{self.device}: ")  # a transport's messages begin with the serial
        spent = f"{self.seconds:.0f} s"
        said = {
            "failed": f"failed: {reason}",
            "quarantined": f"quarantined, tried again in {spent} and then less often: {reason}",
            "replaced": f"replaced after {spent}",
            "back": f"back after {spent}",
        }
        return f"device {self.device} {said[self.kind]}"


class Devices(Protocol):
    """Where a collector gets its devices: a fixed set, or a pool that repairs and replaces them.

    Must be used from one event loop.
    """

    capacity: int
    """Maximum number of concurrent episodes."""
    failure: Exception | None
    """Why no device will ever be ready again; None while there may be one."""

    def on_change(self, changed: Callable[[], None]) -> None:
        """Calls `changed` from now on when a device became ready by itself (not by `give_back`), when one is no longer
        expected, and when `failure` was set."""

    def on_event(self, happened: Callable[[DeviceEvent], None]) -> None:
        """Calls `happened` from now on with what happens to devices."""

    async def start(self) -> None:
        """Raises InfraError when no device at all can be made ready."""

    async def close(self) -> None: ...

    def take(self, avoid: Collection[str] = ()) -> MobileEnv | None:
        """A ready device, reserved for the caller until it is given back; None when there is none.

        Devices whose ids are in `avoid` are not returned while there are others, ready or not.
        """

    def give_back(self, env: MobileEnv, error: str = "") -> None:
        """Returns a device after an episode. `error` says what failed on it."""

    def status(self) -> Mapping[str, float]:
        """Counters and gauges by name, for the metrics."""

    def report(self) -> list[DeviceReport]:
        """One report for every place, whether or not there is a device in it."""


@dataclass(frozen=True, slots=True)
class ShellResult:
    stdout: str
    stderr: str
    exit_code: int


@runtime_checkable
class Transport(Protocol):
    """How commands reach a phone: in-process, or over adb.

    A command given as a sequence is quoted word by word for the device's shell; a command given as a string is a
    shell line and must not contain text that came from a model. A timeout raises `InfraError`.
    """

    serial: str

    def shell(self, cmd: Sequence[str] | str, timeout: float = 10.0) -> ShellResult: ...
    def exec_out(self, cmd: Sequence[str] | str, timeout: float = 10.0) -> bytes: ...
    def push(self, data: bytes, path: str) -> None: ...
    def pull(self, path: str) -> bytes: ...
