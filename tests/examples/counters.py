"""Example of a custom suite, tasks and a device; see CONTRIBUTING.md. The device is a counter with two buttons."""

from __future__ import annotations

import io

from PIL import Image, ImageDraw

from mobilerl.envs.base import Action, Finish, Health, InfraError, Invalid, Observation, StepResult, Tap, Task

SUITE = "counters"
WIDTH, HEIGHT = 180, 360
BUTTONS = {"Less": (0, 240, 90, 360), "More": (90, 240, 180, 360)}
HELD_OUT = range(100, 200)
"""Seeds of test tasks; training uses those below."""


def make_task(seed: int) -> Task:
    """Deterministic: equal seeds give equal tasks. `params` holds what `score` needs, as plain JSON values."""
    target = 1 + seed % 5
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
