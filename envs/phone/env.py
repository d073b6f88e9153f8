"""`PhoneEnv`: the embedded phone as a `MobileEnv`, driven through the same `Device` as a real phone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from statistics import fmean
from typing import TypeVar

from mobilerl.envs.base import Action, Finish, Health, InfraError, Invalid, Observation, StepResult, Task, Transport
from mobilerl.envs.device import Device
from mobilerl.envs.phone.apps.catalogue import APP_NAMES, APPS
from mobilerl.envs.phone.languages import current
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.tasks.base import Admin, Template
from mobilerl.envs.phone.transport import InProcessTransport
from mobilerl.envs.retry import retry

SUITES = {"sim": "mobilerl.envs.phone.tasks.suite", "generated": "mobilerl.envs.phone.generated.tasks"}
"""`Task.suite` -> the module that opens its tasks: `open_task`, `reset_options` and `app_names`."""

PARTIAL = 0.5
"""Partial credit of a failed episode for which all conditions hold, as where the agent did not finish."""

T = TypeVar("T")


class PhoneEnv:
    """One embedded phone: of this process, or behind `transport` (adb), which the code below cannot tell apart.

    `popup_rate` is the chance that an episode is disturbed by a pop-up. Each episode's phone shows one of the
    `languages`, chosen by the task's seed. With `screenshots=False` observations carry no
    image: several times faster, for models that read the XML only. `timeout_s` is for one command. `width`, `height`
    and `density` are those of `Phone`. With `partial_credit` a failed episode earns PARTIAL times the fraction of the
    task's conditions that hold at its end.
    """

    def __init__(
        self,
        device_id: str = "sim-0",
        width: int = 360,
        height: int = 720,
        popup_rate: float = 0.0,
        screenshots: bool = True,
        languages: Sequence[str] = ("en",),
        transport: Transport | None = None,
        timeout_s: float = 10.0,
        density: int | None = None,
        partial_credit: bool = False,
    ) -> None:
        self.device_id = device_id
        self._remote = transport is not None
        self._turn = asyncio.Lock()
        self._transport = transport or InProcessTransport(Phone(APPS, width, height, density), device_id)
        self._device = Device(self._transport, APP_NAMES, timeout_s)
        self._admin = Admin(self._transport)
        self._popup_rate = popup_rate
        self._screenshots, self._wanted = screenshots, True
        self._languages = ",".join(languages)
        self._partial_credit = partial_credit
        self._task: Task | None = None
        self._template: Template | None = None
        self._steps = 0
        self._answer: str | None = None
        self._done = False
        self._boot_id = ""

    @property
    def template(self) -> Template:
        """The template instance of the current episode."""
        if self._template is None:
            raise RuntimeError(f"{self.device_id}: reset(task) comes before everything else")
        return self._template

    @property
    def task(self) -> Task | None:
        """The task of the current episode."""
        return self._task

    def draw(self, wanted: bool) -> None:
        """Leaves out the screenshots of later observations unless they are wanted."""
        self._wanted = wanted

    async def reset(self, task: Task) -> Observation:
        """A fresh phone, the same for equal template and seed, brought into the task's first state."""
        return await self._call(lambda: retry(lambda: self._reset(task)))

    def _reset(self, task: Task) -> Observation:
        suite = import_module(SUITES[task.suite])
        options = (*suite.reset_options(task), "--popups", str(self._popup_rate), "--languages", self._languages)
        result = self._transport.shell(("sim", "reset", *options))
        if result.exit_code != 0:
            raise InfraError(f"{self.device_id}: {result.stderr.strip()}")
        self._task, self._template = task, suite.open_task(task)
        language, names = current(self._admin.setting("system", "system_locales")), suite.app_names(task)
        self._template.language = language
        self._device.name_apps({**{language.text(name, {}): package for name, package in names.items()}, **names})
        self._template.setup(self._admin)
        self._boot_id = self._device.boot_id()
        self._steps, self._answer, self._done = 0, None, False
        return self._observe()

    async def step(self, action: Action) -> StepResult:
        """Performs one action. Finish ends the episode, and so does the last step of the task's budget."""
        return await self._call(lambda: self._step(action))

    def _step(self, action: Action) -> StepResult:
        task = self._task
        if task is None or self._done:
            raise RuntimeError(f"{self.device_id}: no episode is running; call reset(task)")
        start, note = time.perf_counter(), ""
        if isinstance(action, Finish):
            self._answer, self._done = action.message, True
        elif not isinstance(action, Invalid):
            note = self._device.act(action)
        acted = time.perf_counter()
        self._steps += 1
        self._done |= self._steps >= task.max_steps
        observation = self._observe()
        timings = {"act": acted - start, "settle": 0.0, "observe": time.perf_counter() - acted}
        return StepResult(observation, self._done, timings, note)

    async def score(self) -> float:
        """1.0 when the agent finished and the task is done, else 0.0 or the partial credit."""
        return await self._call(self._score)

    def _score(self) -> float:
        if self._device.boot_id() != self._boot_id:
            raise InfraError(f"{self.device_id}: rebooted in the middle of an episode")
        answer = self._answer
        if answer is not None and retry(lambda: self.template.check(self._admin, answer)):
            return 1.0
        if not self._partial_credit:
            return 0.0
        return PARTIAL * fmean(retry(lambda: self.template.conditions(self._admin, answer or "")))

    async def close(self) -> None:
        """Nothing to release: the phone belongs to its creator or its server."""

    async def health(self) -> Health:
        """Whether the phone answers."""
        try:
            await self._call(self._device.foreground_package)
        except InfraError as error:
            return Health(False, str(error))
        return Health(True)

    async def _call(self, work: Callable[[], T]) -> T:
        """A phone of this process answers at once; one behind a wire must not hold up the others.

        Commands of an abandoned episode finish before the next one may touch the phone.
        """
        if not self._remote:
            return work()
        begun = asyncio.ensure_future(self._alone(work))
        begun.add_done_callback(lambda task: task.cancelled() or task.exception())  # it may have no reader left
        return await asyncio.shield(begun)

    async def _alone(self, work: Callable[[], T]) -> T:
        async with self._turn:
            return await asyncio.to_thread(work)

    def _observe(self) -> Observation:
        xml = self._device.dump_xml()
        width, height = self._device.size()
        return Observation(
            screenshot=self._device.screenshot() if self._screenshots and self._wanted else b"",
            width=width,
            height=height,
            xml=xml,
            app=self._device.foreground_app(),
            step=self._steps,
        )
