"""Example of a suite in one file: its settings, tasks and devices, which are counters with two buttons. A package with
the entry point `counters = "PACKAGE.counters:CountersSection"` of the group `mobilerl.suites` can be trained and
evaluated on it, as `--suite.type counters` and `mobilerl eval counters`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from PIL import Image, ImageDraw

from mobilerl.config import Recipe, SuiteBase
from mobilerl.config.types import Positive
from mobilerl.envs.base import (
    Action,
    Finish,
    Health,
    InfraError,
    Invalid,
    MobileEnv,
    Observation,
    StepResult,
    Tap,
    Task,
)

SUITE = "counters"
WIDTH, HEIGHT = 180, 360
BUTTONS = {"Less": (0, 240, 90, 360), "More": (90, 240, 180, 360)}
HELD_OUT = range(100, 200)
"""Seeds of test tasks; training uses those below."""


class CountersSection(SuiteBase):
    """Counting with two buttons."""

    module = __name__
    type: Literal["counters"] = "counters"
    """Suite of tasks."""
    most: Positive = 5
    """Highest number to count to."""


class CounterSuite:
    """A `Suite`, which brings devices of its own."""

    extra, has_server, in_process = "", False, True

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.suite, CountersSection)
        self._most, self._tasks, self._count = recipe.suite.most, recipe.tasks, recipe.fleet.count

    def check(self) -> None: ...

    def open(self, run_dir: Path | None = None) -> tuple[list[Task], Sequence[MobileEnv]]:
        return self._made(range(self._tasks.per_template)), [CounterEnv(f"counter-{i}") for i in range(self._count)]

    def held_out(self, per_template: int) -> dict[str, list[Task]]:
        return {"success_rate": self._made(HELD_OUT[:per_template])}

    def env_factory(self) -> Callable[..., MobileEnv]:
        return lambda device_id, transport: CounterEnv(device_id)

    def _made(self, seeds: Sequence[int]) -> list[Task]:
        return [make_task(seed, self._most) for seed in seeds]


make = CounterSuite


def is_held_out(task: Task) -> bool:
    return task.seed in HELD_OUT


def make_task(seed: int, most: int = 5) -> Task:
    """Deterministic: equal seeds give equal tasks. `params` holds what `score` needs, as plain JSON values."""
    target = 1 + seed % most
    return Task(f"{SUITE}/CountTo/{seed}", "CountTo", f"Count to {target}", {"target": target}, seed, 12, SUITE)


class CounterEnv:
    """A `MobileEnv`. Device failures raise `InfraError` and must never become a reward of 0."""

    def __init__(self, device_id: str) -> None:
        self.device_id = device_id
        self._task: Task | None = None

    async def reset(self, task: Task) -> Observation:
        self._task, self._value, self._steps, self._finished = task, 0, 0, False
        return self._observe()

    async def step(self, action: Action) -> StepResult:
        if self._task is None:
            raise InfraError(f"{self.device_id}: no episode is running")
        self._steps += 1
        note = ""
        if isinstance(action, Finish):
            self._finished = True
        elif isinstance(action, Tap):
            self._value += {"Less": -1, "More": 1}.get(self._button(action), 0)
        elif not isinstance(action, Invalid):
            note = f"a counter does not support {action.kind}"
        return StepResult(self._observe(), self._finished or self._steps >= self._task.max_steps, note=note)

    async def score(self) -> float:
        """Success is read from the state of the device, not from the agent's words."""
        assert self._task is not None
        return float(self._finished and self._value == self._task.params["target"])

    async def close(self) -> None: ...

    async def health(self) -> Health:
        return Health(True)

    def _button(self, tap: Tap) -> str:
        x, y = tap.x * WIDTH // 999, tap.y * HEIGHT // 999
        return next((n for n, (left, top, right, end) in BUTTONS.items() if left <= x < right and top <= y < end), "")

    def _observe(self) -> Observation:
        """Draws the screenshot and the XML from one description, so they always agree."""
        shown = {str(self._value): (0, 60, 180, 160)} | BUTTONS
        image = Image.new("RGB", (WIDTH, HEIGHT), "white")
        nodes = []
        for text, (left, top, right, end) in shown.items():
            ImageDraw.Draw(image).text((left + 20, top + 30), text, "black")
            nodes.append(
                f'<node class="android.widget.Button" text="{text}" clickable="{str(text in BUTTONS).lower()}" '
                f'enabled="true" bounds="[{left},{top}][{right},{end}]"/>'
            )
        png = io.BytesIO()
        image.save(png, "PNG")
        xml = f"<hierarchy>{''.join(nodes)}</hierarchy>"
        return Observation(png.getvalue(), WIDTH, HEIGHT, xml, "Counter", self._steps)
