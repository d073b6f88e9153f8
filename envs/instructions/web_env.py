"""`WebInstructionEnv`: runs instructions from a file on a web app, on a page of Chromium."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from mobilerl.envs.base import (
    Action,
    Finish,
    FreeReward,
    InfraError,
    Invalid,
    NoScore,
    Observation,
    StepResult,
    Task,
    TaskFault,
)
from mobilerl.envs.browser.env import PageEnv

if TYPE_CHECKING:
    from mobilerl.envs.browser.page import Page

STATEMENT, EXPRESSION = "async () => {{ {} }}", "async () => Boolean(await ({}))"
ORIGIN = "() => location.origin"


class WebInstructionEnv(PageEnv):
    """The JavaScript of a task is written by its author and runs in the page of the app; no text of a model is in it.

    An agent that has left the app gets 0. Without `free_reward`, `reset` refuses a task whose check succeeds before the
    agent has done anything (FreeReward) or cannot run (NoScore).
    """

    ask = "() => document.title"

    def __init__(
        self, device_id: str, page: Page, url: str, screenshots: bool = True, free_reward: bool = False
    ) -> None:
        super().__init__(device_id, page, screenshots)
        self._url, self._free_reward = url, free_reward
        parts = urlsplit(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._answer: str | None = None

    async def reset(self, task: Task) -> Observation:
        self._task = None
        params, start = task.params, urljoin(self._url, task.params["start"])
        try:
            await self._open(task, start)
            for line in params["reset"]:
                await self._run(task, "reset", STATEMENT, line, TaskFault)
            if params["reset"]:
                await self.page.open("about:blank")  # without which a start with # would not be loaded again
                await self.page.open(start)
            free = not self._free_reward and params["check"] and not params["answer"]
            if free and await self._passes(task):
                raise FreeReward(
                    f"{task.id}: its check succeeds before the agent has done anything; let `reset` undo what it checks"
                )
            self._steps, self._done, self._answer = 0, False, None
            observation = await self._observe()
        except InfraError as error:
            raise self._named(error) from None
        self._task = task
        return observation

    async def _open(self, task: Task, url: str) -> None:
        from mobilerl.envs.browser.tab import BadStatus  # which needs Playwright

        try:
            await self.page.open(url)
        except BadStatus as error:
            raise TaskFault(f"{task.id}: {error}") from None

    async def _run(self, task: Task, field: str, form: str, line: str, kind: type[TaskFault]) -> Any:
        """The value of a line of JavaScript. Raises `kind` if it throws."""
        try:
            return await self.page.run(form.format(line))
        except InfraError as error:
            if self.page.gone:
                raise
            raise kind(f"{task.id}: {field} {line!r} cannot run: {error}") from None

    async def _passes(self, task: Task) -> bool:
        """Whether all checks are true; those after the first that is not are not run."""
        for line in task.params["check"]:
            if not await self._run(task, "check", EXPRESSION, line, NoScore):
                return False
        return True

    async def step(self, action: Action) -> StepResult:
        """Takes one action. The episode ends with Finish, or when the step budget is used up."""
        if self._task is None or self._done:
            raise RuntimeError(f"{self.device_id}: no episode is running; call reset(task)")
        start, note = time.perf_counter(), ""
        try:
            if isinstance(action, Finish):
                self._answer, self._done = action.message, True
            elif not isinstance(action, Invalid):
                note = await self.page.act(action)
            acted = time.perf_counter()
            self._steps += 1
            observation = await self._observe()
        except InfraError as error:
            raise self._named(error) from None
        note = "; ".join(filter(None, [note, self.page.take_events()]))
        self._done |= self._steps >= self._task.max_steps
        timings = {"act": acted - start, "observe": time.perf_counter() - acted}
        return StepResult(observation, self._done, timings, note)

    async def score(self) -> float:
        """1.0 if the agent declared the task done in the app and its checks pass, else 0.0."""
        task, answer = self._task, self._answer
        if task is None:
            raise RuntimeError(f"{self.device_id}: no episode to score; call reset(task)")
        wanted = task.params["answer"]
        if not (task.params["check"] or wanted):
            raise NoScore(f"{task.id} has neither `check` nor `answer`")
        try:
            there = await self.page.run(ORIGIN) == self._origin
            if answer is None or not there or (wanted and wanted.casefold() not in answer.casefold()):
                return 0.0
            return float(await self._passes(task))
        except InfraError as error:
            raise self._named(error) from None

    def _app(self) -> str:
        return self._said
