"""`AndroidLabEnv`: a `MobileEnv` that runs AndroidLab's tasks on one device."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mobilerl.envs.androidlab.phone import LabPhone
from mobilerl.envs.androidlab.trace import TraceWriter, parsed_action
from mobilerl.envs.base import Action, Finish, Health, InfraError, Invalid, NoScore, Observation, StepResult, Task
from mobilerl.envs.blocking import OneAtATime

Grade = Callable[[Task, Path], Awaitable[float]]
"""(task, folder of its trace) -> reward in [0, 1]. Raises InfraError if there is no verdict."""
REAL_DATE = "map.me"
"""Tasks whose instruction contains this word keep the device's own date."""
MOVING = ("map.me", "pimusic")
"""Words in instructions by which AndroidLab recognizes screens that never stand still, so that `uiautomator` gives no
tree. Its music tasks say `Pi Music Player`, and are still read with `uiautomator`."""
REPEATS, REPEATS_AFTER = 5, 5
"""An episode ends after more than `REPEATS_AFTER` steps if the last `REPEATS` actions were identical."""


@dataclass(frozen=True, slots=True)
class LabSettings:
    """Times in seconds. With `launch` an episode begins in the task's app (AndroidLab's `in_app`), not on the home
    screen."""

    interval_s: float = 3.0
    """Pause after every action."""
    launch: bool = True
    launch_wait_s: float = 15.0


class AndroidLabEnv:
    """Runs tasks made by `LabTask.task`. `apps` maps names of apps to packages.

    With `folder`, the trace is written step by step to `folder`/<task id>, and `grade` scores it. The task's query runs
    at every observation, before the action is chosen, so that a line of the trace holds screen, query and action as in
    AndroidLab's traces. Without one, as in training, tasks have no score, and the last screen is observed for a judge.
    """

    def __init__(
        self,
        device_id: str,
        phone: LabPhone,
        apps: Mapping[str, str],
        folder: Path | None = None,
        grade: Grade | None = None,
        settings: LabSettings | None = None,
    ) -> None:
        self.device_id = device_id
        self.phone, self.settings = phone, settings or LabSettings()
        self._apps, self._labels = dict(apps), {package: name for name, package in apps.items()}
        self._folder, self._grade = folder, grade
        self._call = OneAtATime()
        self._task: Task | None = None
        self._trace: TraceWriter | None = None
        self._seen: Observation | None = None
        self._done = False
        self._last: dict[str, Any] = {}
        self._repeated = 0
        """How often the last action has been taken in a row."""

    async def reset(self, task: Task) -> Observation:
        """Sets up the device, opens the app, and waits for it."""
        self._task = self._trace = self._seen = None
        package, instruction = task.params["package"], task.instruction
        await self._call(lambda: self.phone.prepare(package, set_date=REAL_DATE not in instruction))
        if self.settings.launch:
            await self._call(lambda: self.phone.launch(package))
            await asyncio.sleep(self.settings.launch_wait_s)
        await self._call(lambda: self.phone.watch(any(word in instruction for word in MOVING)))
        if self._folder is not None:
            self._trace = TraceWriter(self._folder / task.id, task.id, task.instruction)
        self._task, self._done, self._last = task, False, {}
        return await self._look(task, 0)

    async def step(self, action: Action) -> StepResult:
        """Takes one action. The episode ends with Finish, with the last step of the budget, or after repetition."""
        task, trace, seen = self._task, self._trace, self._seen
        if task is None or seen is None or self._done:
            raise RuntimeError(f"{self.device_id}: no episode is running; call reset(task)")
        start, note = time.perf_counter(), ""
        if not isinstance(action, Finish | Invalid):
            note = await self._call(lambda: self.phone.device.act(action))
        before, self._last = self._last, parsed_action(action, seen.width, seen.height, self._apps)
        self._repeated = self._repeated + 1 if self._last == before else 1
        if trace is not None:
            trace.record_action(self._last)
        acted = time.perf_counter()
        steps = seen.step + 1
        stuck = steps > REPEATS_AFTER and self._repeated >= REPEATS
        self._done = isinstance(action, Finish) or steps >= task.max_steps or stuck
        # A trace does not record the screen after the last action.
        if isinstance(action, Finish) or self._done and trace is not None:
            return StepResult(replace(seen, step=steps), True, {"act": acted - start}, note)
        await asyncio.sleep(self.settings.interval_s)
        settled = time.perf_counter()
        observation = await self._look(task, steps)
        timings = {"act": acted - start, "settle": settled - acted, "observe": time.perf_counter() - settled}
        return StepResult(observation, self._done, timings, note)

    async def score(self) -> float:
        """The judge's reward for the trace. Raises NoScore without one."""
        if self._task is None:
            raise RuntimeError(f"{self.device_id}: no episode to score; call reset(task)")
        await self._call(self.phone.device.check_boot)
        if self._trace is None or self._grade is None:
            raise NoScore(f"{self._task.id} has no check")
        return await self._grade(self._task, self._trace.folder)

    async def close(self) -> None:
        """Does nothing: the device keeps running."""

    async def health(self) -> Health:
        try:
            await self._call(self.phone.device.connect)
        except InfraError as error:
            return Health(False, str(error))
        return Health(True)

    async def _look(self, task: Task, step: int) -> Observation:
        query = task.params["query"]
        screen = await self._call(self.phone.see)
        command = {query: await self._call(lambda: self.phone.query(query))} if query else {}
        if self._trace is not None:
            self._trace.record_screen(step, screen, command)
        app = self._labels.get(screen.package, screen.package)
        self._seen = Observation(screen.screenshot, screen.width, screen.height, screen.xml, app, step)
        return self._seen
