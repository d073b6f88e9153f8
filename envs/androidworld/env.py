"""`AndroidWorldEnv`: one AndroidWorld server and its phone, as a `MobileEnv`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, replace

from mobilerl.envs.androidworld.access import Access
from mobilerl.envs.androidworld.client import AndroidWorldClient
from mobilerl.envs.androidworld.faults import EnvironmentFault, NanScore, ServerFault, WrongServer
from mobilerl.envs.androidworld.tasks import ANSWER_TASKS, SENTINELS, WALL_CLOCK_GOALS
from mobilerl.envs.base import Action, Finish, FreeReward, Health, InfraError, Invalid, Observation, StepResult, Task

BOOT_WAIT_S = 900.0
"""A starting server downloads and installs some twenty apps before it opens its port: 5 to 10 minutes."""
POLL_S = 2.0


@dataclass(frozen=True, slots=True)
class Episode:
    """The current or last episode, as AndroidWorld reports it."""

    goal: str
    probe: float | None
    """The score right after the set-up; above 0 the reward is free. None if the check raised at that point."""
    said_done: bool = False
    raw_score: float | None = None
    """The score at the end, whether or not the agent declared the task done."""


class AndroidWorldEnv:
    """Follows AndroidWorld's order: a new suite, initialize, probe the score, home screen, episode, score, tear down.

    Every episode has a new suite, because `initialize` changes the parameters of a task (dates are reworded), and a
    second episode on the same object would be a different test. The goal is read after `initialize`, as in
    AndroidWorld's own runner, and is the episode's `instruction`.

    The score counts only if the agent declared the task done. Without `free_reward`, as in training, `reset` refuses an
    instance whose reward is free (FreeReward).
    """

    def __init__(
        self,
        device_id: str,
        client: AndroidWorldClient,
        access: Access,
        boot_wait_s: float = BOOT_WAIT_S,
        free_reward: bool = True,
    ) -> None:
        self.device_id = device_id
        self.client, self.access = client, access
        self.episode: Episode | None = None
        self.given_up = False
        """Whether the server has not answered for `boot_wait_s`. Later episodes try it once, without waiting."""
        self._boot_wait_s, self._free_reward = boot_wait_s, free_reward
        self._fingerprint: tuple[str, ...] = ()
        self._up: tuple[str, int] | None = None
        """Name and index of the task that is set up."""
        self._task: Task | None = None
        self._seen: Observation | None = None
        self._done = False

    @property
    def instruction(self) -> str:
        """Goal of the current or last episode, in AndroidWorld's wording."""
        return self.episode.goal if self.episode else ""

    async def reset(self, task: Task) -> Observation:
        """Sets up the task, whatever state the server is in. Waits while the server is starting."""
        self._task = self.episode = None
        name, index = task.template, task.params["index"]
        await self._wait_until_up()
        await self._tear_down()
        await self._make_suite(task)
        self._up = (name, index)
        await self.client.initialize(name, index)
        probe = await self._probe(name, index)
        goal = await self.client.goal(name, index)
        await self.client.reset(go_home=True)
        await self.access.prepare()
        self._seen = await self.access.observe(0)
        self._task, self._done = task, False
        self.episode = Episode(goal, probe)
        return self._seen

    async def step(self, action: Action) -> StepResult:
        """Takes one action. The episode ends with Finish, or when the step budget is used up."""
        task, seen = self._task, self._seen
        if task is None or self.episode is None or seen is None or self._done:
            raise RuntimeError(f"{self.device_id}: no episode is running; call reset(task)")
        start, steps = time.perf_counter(), seen.step + 1
        if isinstance(action, Finish):
            self._done = True
            if action.message and task.template in ANSWER_TASKS:
                await self.client.execute(action_type="answer", text=action.message)
            self.episode = replace(self.episode, said_done=True)
            return StepResult(replace(seen, step=steps), True, {"act": time.perf_counter() - start})
        note = "" if isinstance(action, Invalid) else await self.access.act(action)
        acted = time.perf_counter()
        self._seen = await self.access.observe(steps)
        self._done = steps >= task.max_steps
        timings = {"act": acted - start, "observe": time.perf_counter() - acted}
        return StepResult(self._seen, self._done, timings, note)

    async def score(self) -> float:
        """AndroidWorld's score if the agent declared the task done, else 0. Ends the episode."""
        task, episode = self._task, self.episode
        if task is None or episode is None:
            raise RuntimeError(f"{self.device_id}: no episode to score; call reset(task)")
        await self.access.check()
        if await self._read_fingerprint() != self._fingerprint:
            raise ServerFault(f"{self.device_id}: the server was restarted, or given another suite, in mid-episode")
        raw = await self.client.score(task.template, task.params["index"])
        self._task = None
        await self._tear_down()
        self.episode = replace(episode, raw_score=raw)
        return raw if episode.said_done else 0.0

    async def close(self) -> None:
        """Tears down the task, so that the next user of the server finds it clean."""
        try:
            await self._tear_down()
        finally:
            await self.client.close()

    async def health(self) -> Health:
        """Checks that the server answers and, over adb, the phone too."""
        try:
            await self._check_up()
        except InfraError as error:
            return Health(False, str(error))
        return Health(True)

    async def _check_up(self) -> None:
        await self.client.health()
        await self.access.connect()

    async def _wait_until_up(self) -> None:
        """Waits for the server. One that was given up is tried only once, until it answers again."""
        until = time.monotonic() + (0 if self.given_up else self._boot_wait_s)
        while True:
            try:
                await self._check_up()
                self.given_up = False
                return
            except InfraError as fault:
                if isinstance(fault, WrongServer) or time.monotonic() >= until:
                    self.given_up = True
                    raise
            await asyncio.sleep(POLL_S)

    async def _make_suite(self, task: Task) -> None:
        """Creates the task's suite on the server and checks that it contains the task.

        No route returns the parameters of an instance. In a new suite a goal is its template with the parameters filled
        in, so equal goals mean equal parameters.
        """
        await self.client.reinitialize(task.params["combinations"], task.seed)
        self._fingerprint = await self._read_fingerprint()
        goal = await self.client.goal(task.template, task.params["index"])
        if goal != task.instruction and task.template not in WALL_CLOCK_GOALS:
            raise WrongServer(
                f"{self.device_id}: {task.id} is another instance here: its goal is {goal!r}, not {task.instruction!r}"
            )

    async def _read_fingerprint(self) -> tuple[str, ...]:
        """Goals that identify the suite, since no route returns its seed."""
        return tuple([await self.client.goal(name, 0) for name in SENTINELS])

    async def _probe(self, name: str, index: int) -> float | None:
        """The score before the episode; None if the check raises, which some do until something was done."""
        try:
            score = await self.client.score(name, index)
        except (EnvironmentFault, NanScore):
            return None
        if score > 0 and not self._free_reward:
            raise FreeReward(f"its reward is free: the score is {score:g} before the agent has done anything")
        return score

    async def _tear_down(self) -> None:
        """Tears down the task. Faults are ignored, because the next episode has its own suite."""
        up, self._up = self._up, None
        if up is not None:
            with contextlib.suppress(ServerFault):
                await self.client.tear_down(*up)
