"""`MobileGymEnv`: a task of MobileGym on a page of Chromium."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mobilerl.envs.base import Action, Finish, InfraError, Invalid, NoScore, Observation, StepResult, Task, TaskFault
from mobilerl.envs.browser.env import PageEnv
from mobilerl.envs.browser.web import Web
from mobilerl.envs.device import MAX_WAIT_S, TOO_LONG, too_long
from mobilerl.envs.mobilegym.bench import Bench, BenchFault, BenchLost, CallFault
from mobilerl.envs.mobilegym.calls import use_page

if TYPE_CHECKING:
    from mobilerl.envs.browser.page import Page

Reward = Literal["success", "progress"]
WIDTH, HEIGHT = 360, 800
HOST = "mobilegym.localhost"
"""Under `localhost`, where pages may do what they otherwise may only over HTTPS."""
URL = f"http://{HOST}/"
ROUTE = "() => window.__OS__?.getAppRoute?.()?.app || 'launcher'"
SETUP_S, ACT_S, JUDGE_S = 240.0, 60.0, 60.0
"""Time limits in seconds."""
LEAST_S, MOST_S, REST_S = 0.15, 0.5, 1.0
"""Shortest and longest pause from an action to the next observation, in which apps finish what they do later (a note is
saved half a second after it was changed), and the longest before the judge. MobileGym's own runner waits 0.5 to 1.1 s
after every action."""
WATCH = """
(() => {
  const due = new Set(), begin = window.setTimeout, end = window.clearTimeout;
  const sleep = (ms) => new Promise((resume) => begin(resume, ms));
  window.setTimeout = (work, ms, ...given) => {
    if (typeof work !== 'function' || ms >= 1000) return begin(work, ms, ...given);
    const id = begin(() => { due.delete(id); work(...given); }, ms);
    due.add(id);
    return id;
  };
  window.clearTimeout = (id) => { due.delete(id); end(id); };
  window.restOfTrainer = async ([leastMs, mostMs]) => {
    const begun = performance.now();
    await sleep(leastMs);
    while (due.size && performance.now() - begun < mostMs) await sleep(20);
  };
})();
"""
"""Notes which timers of less than a second, which the clock's has, run in a page, and lets `REST` wait for them."""
REST = "(limits) => restOfTrainer(limits)"
POINT_MAX = 1000 / 999
"""MobileGym's coordinates go to 1000."""


def web(checkout: Path, scale: float) -> Web:
    """What the pages of this suite may show: the simulator, as it is built."""
    return Web(WIDTH, HEIGHT, scale, sites={HOST: checkout / "dist"})


class MobileGymEnv(PageEnv):
    """Tasks are set up, acted on and judged by the checkout's own Python, through this page.

    The reward is 1 if the agent declares the task done, its goal is reached and nothing else was changed. `progress`
    gives the others half of the share of the goal's conditions that hold.
    """

    ask = ROUTE

    def __init__(
        self, device_id: str, page: Page, bench: Bench, screenshots: bool = True, reward: Reward = "success"
    ) -> None:
        super().__init__(device_id, page, screenshots)
        self._bench, self._reward = bench, reward
        self.instruction = ""
        self.verdict: dict[str, Any] = {}
        """What the judge said about the last episode: `success`, `goal`, `clean` and `progress`."""
        self._finished = self._watched = False

    async def reset(self, task: Task) -> Observation:
        """Raises TaskFault if the task cannot be set up."""
        self._task, self.verdict = None, {}
        if not self._watched:
            await self.page.send("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
            self._watched = True
        setup = {"do": "setup", "template": task.template, "seed": task.seed, "url": URL}
        try:
            self.instruction = await self._ask(setup, SETUP_S)
        except BenchFault as fault:
            raise self._fault(TaskFault, f"{task.id} cannot be set up: {fault}", fault) from None
        self._steps, self._done, self._finished = 0, False, False
        observation = await self._observe()
        self._task = task
        return observation

    async def step(self, action: Action) -> StepResult:
        """Performs one action. Finish, and the last step of the budget, end the episode."""
        if self._task is None or self._done:
            raise RuntimeError(f"{self.device_id}: no episode is running; call reset(task)")
        start, note = time.perf_counter(), ""
        if isinstance(action, Finish):
            self._done = self._finished = True
            if action.message:
                await self._act("ANSWER", value=action.message)
        elif not isinstance(action, Invalid):
            note = await self._perform(action)
            await self._rest(MOST_S)
        acted = time.perf_counter()
        self._steps += 1
        observation = await self._observe()
        note = "; ".join(filter(None, [note, self.page.take_events()]))
        self._done |= self._steps >= self._task.max_steps
        timings = {"act": acted - start, "observe": time.perf_counter() - acted}
        return StepResult(observation, self._done, timings, note)

    async def _rest(self, most_s: float) -> None:
        try:
            await self.page.run(REST, [1000 * LEAST_S, 1000 * most_s])
        except InfraError as error:
            raise self._named(error) from None

    async def _perform(self, action: Action) -> str:
        """Carries out an action in MobileGym's own way. Returns why it had no effect, or ""."""
        match action.kind:
            case "tap":
                return await self._act("CLICK", point=_point(action.x, action.y))
            case "long_press":
                return await self._act("LONG_PRESS", point=_point(action.x, action.y))
            case "swipe":
                start, end = _point(action.x, action.y), _point(action.x2, action.y2)
                return await self._act("SWIPE", point1=start, point2=end)
            case "type":
                return TOO_LONG if too_long(action.text) else await self._act("TYPE", value=action.text, clear=True)
            case "launch":
                return await self._act("AWAKE", value=action.app)
            case "back" | "home" | "enter":
                return await self._act(action.kind.upper())
            case "wait":
                await asyncio.sleep(min(max(action.seconds, 0.0), MAX_WAIT_S))
                return ""
        raise TypeError(f"{action.kind} is not an action of a device")

    async def _act(self, type: str, **data: Any) -> str:
        try:
            return await self._ask({"do": "act", "type": type, "data": data}, ACT_S)
        except BenchFault as fault:
            raise InfraError(f"{self.device_id}: {type}: {fault}") from None

    async def score(self) -> float:
        """The judge's verdict. Raises NoScore if it cannot judge."""
        if self._task is None:
            raise RuntimeError(f"{self.device_id}: no episode to score; call reset(task)")
        await self._rest(REST_S)
        try:
            self.verdict = await self._ask({"do": "judge", "finished": self._finished}, JUDGE_S)
        except BenchFault as fault:
            raise self._fault(NoScore, f"{self._task.id} cannot be judged: {fault}", fault) from None
        if self.verdict["success"]:
            return 1.0
        return self.verdict["progress"] / 2 if self._reward == "progress" else 0.0

    async def close(self) -> None:
        """Ends the process of its Python. The page belongs to its provider."""
        await self._bench.close()

    def _app(self) -> str:
        return self._said

    async def _observe(self) -> Observation:
        try:
            return await super()._observe()
        except InfraError as error:
            raise self._named(error) from None

    async def _ask(self, request: dict[str, Any], timeout_s: float) -> Any:
        return await self._bench.ask(request, self._call, timeout_s)

    async def _call(self, name: str, args: list[Any]) -> Any:
        try:
            return await use_page(self.page, name, args)
        except InfraError as error:
            if self.page.gone:
                raise self._named(error) from None
            raise CallFault(str(error)) from None

    def _fault(self, kind: type[TaskFault], said: str, fault: BenchFault) -> InfraError:
        """A process that has ended says nothing about the task."""
        return InfraError(f"{self.device_id}: {said}") if isinstance(fault, BenchLost) else kind(said)


def _point(x: int, y: int) -> list[float]:
    return [x * POINT_MAX, y * POINT_MAX]
