"""`MiniWoBEnv`: a task of MiniWoB++ on a page of Chromium."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from mobilerl.envs.base import Action, Finish, InfraError, Invalid, Observation, StepResult, Task
from mobilerl.envs.browser.env import PageEnv
from mobilerl.envs.browser.web import Web
from mobilerl.envs.miniwob.tasks import HOST, folder

if TYPE_CHECKING:
    from mobilerl.envs.browser.page import Page

Reward = Literal["raw", "discounted"]
WIDTH, HEIGHT = 360, 472
VIEWPORT = "width=160, user-scalable=no"
"""The tasks are 160 CSS pixels wide, and shown as large as the screen."""
HIDDEN = ("query", "reward-display", "sync-task-cover", "click-canvas")
"""Elements that are not in the tree, as in the package's own: the instruction and what surrounds the task."""
LONGEST_MS = 1_000_000_000
"""Time limit of an episode in the page: none, because it would depend on the speed of the model."""

RELOADED = frozenset("book-flight book-flight-nodelay click-pie scroll-text-2 stock-market use-colorwheel".split())
"""Tasks that do not always start as in a new page when they are started again."""

BEGIN = """
async ([seed, mode, longestMs, episode]) => {
  const [, , ...added] = document.documentElement.children;
  for (const element of added) element.remove();
  document.activeElement?.blur();
  scrollTo(0, 0);
  core.EPISODE_MAX_TIME = longestMs;
  core.setDataMode(mode);
  Math.seedrandom(seed);
  core.startEpisodeReal();
  core.clearTimer();
  core.cover_div.onclick = null;
  core.hideDisplay();
  document.getElementById('click-canvas').style.display = 'none';
  core.episodeOfTrainer = episode;
  for (let left = 1000; !WOB_TASK_READY; left -= 1) {  // some show something first, such as which buttons to press
    if (!left) throw new Error('the task does not begin');
    await new Promise((resume) => setTimeout(resume, 10));
  }
  const said = core.getUtterance();
  return said.utterance || said;
}
"""
"""Starts an episode, which nothing in the page can start again, and returns its instruction."""
STATE = """
() => {
  const ours = typeof core === 'undefined' ? '' : core.episodeOfTrainer || '';
  return ours ? [ours, WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL] : ['', true, 0];
}
"""
"""Episode, whether it is over, and raw reward; a new page has no episode."""


def web() -> Web:
    """What the pages of this suite may show. Raises NoMiniWoB."""
    return Web(WIDTH, HEIGHT, viewport=VIEWPORT, sites={HOST: folder()})


class MiniWoBEnv(PageEnv):
    """The reward is the page's own, from 0 to 1 (negative ones count as 0), when the page ends the episode. An agent
    that declares the task done, or leaves the page, before that gets 0.

    `discounted` multiplies it by the share of the step budget that was left, as the page does with time.
    """

    hidden, ask = HIDDEN, STATE

    def __init__(self, device_id: str, page: Page, screenshots: bool = True, reward: Reward = "raw") -> None:
        super().__init__(device_id, page, screenshots)
        self._reward_kind = reward
        self.instruction = ""
        self._episodes = 0
        self._ended = ""
        """Name of the task that the page shows, once it has ended the episode. Then the page can start another one, as
        in the package's own environment, which takes a fifth of the time of a new page."""
        self._reward: float | None = None
        """Reward of the episode once the page has ended it."""

    async def reset(self, task: Task) -> Observation:
        self._task = None
        again = self._ended == task.template and task.template not in RELOADED
        self._ended = ""  # first, since a page that fails to open may show the new task all the same
        try:
            if again:
                await self.page.begin()
            else:
                await self.page.open(f"http://{HOST}/miniwob/{task.template}.html")
            self._episodes += 1
            episode = f"{self.device_id}/{self._episodes}"
            self.instruction = await self.page.run(BEGIN, [task.seed, task.params["mode"], LONGEST_MS, episode])
            self._steps, self._done, self._reward, self._episode = 0, False, None, episode
            observation = await self._observe()
        except InfraError as error:
            raise self._named(error) from None
        self._task = task
        return observation

    async def step(self, action: Action) -> StepResult:
        """Performs one action. The page, Finish, and the last step of the budget end the episode."""
        if self._task is None or self._done:
            raise RuntimeError(f"{self.device_id}: no episode is running; call reset(task)")
        start, note = time.perf_counter(), ""
        try:
            if isinstance(action, Finish):
                self._done = True
            elif not isinstance(action, Invalid):
                note = await self.page.act(action)
            acted = time.perf_counter()
            self._steps += 1
            observation = await self._observe()
            note = "; ".join(filter(None, [note, self.page.take_events(), self._look()]))
        except InfraError as error:
            raise self._named(error) from None
        ended = self._reward is not None
        self._done |= ended or self._steps >= self._task.max_steps
        timings = {"act": acted - start, "observe": time.perf_counter() - acted}
        return StepResult(observation, self._done, timings, note, finished=ended)

    def _look(self) -> str:
        """Takes the reward if the page has ended the episode. Returns a note if the agent has left the page."""
        episode, over, raw = self._said
        if episode != self._episode:
            self._reward, self._ended = 0.0, ""
            return "the page of the task was left"
        if over and self._reward is None:
            assert self._task is not None
            self._ended = self._task.template
            left = 1 - (self._steps - 1) / self._task.max_steps if self._reward_kind == "discounted" else 1.0
            self._reward = min(max(float(raw), 0.0), 1.0) * max(left, 0.0)
        return ""

    async def score(self) -> float:
        """The page's reward, or 0 if it has not ended the episode."""
        if self._task is None:
            raise RuntimeError(f"{self.device_id}: no episode to score; call reset(task)")
        try:
            if self._reward is None:
                self._said = await self.page.run(STATE)
                self._look()
        except InfraError as error:
            raise self._named(error) from None
        return self._reward or 0.0

    def _app(self) -> str:
        return "MiniWoB++"
