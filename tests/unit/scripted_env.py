"""A small deterministic `MobileEnv` with faults on demand, and an actor that plays a script on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mobilerl.envs.base import (
    Action,
    Finish,
    FreeReward,
    Health,
    InfraError,
    Observation,
    StepResult,
    Tap,
    Task,
    TaskFault,
)
from mobilerl.policy.actor import Decision, make_decision

XML = '<hierarchy><node class="Button" text="OK" clickable="true" enabled="true" bounds="[0,0][50,50]"/></hierarchy>'
WHERE = ("reset", "step", "score")
FAULTS = ("ok", "slow", "infra", "hang")


def make_task(name: str = "a", max_steps: int = 5) -> Task:
    return Task(f"s/{name}", "T", f"do {name}", {}, 0, max_steps, "s")


@dataclass
class ScriptedEnv:
    """The reward is 1 once the agent has said finish. `fault(where, episode)` names what happens in an episode's call.

    `where` is reset, step or score and `episode` counts this device's resets from 0. Beside `FAULTS` the task itself
    may be at fault: `task`, and `free` for a reward that is given for nothing.
    """

    device_id: str = "d0"
    fault: Callable[[str, int], str] = lambda where, episode: "ok"
    ok: bool = True
    episode: int = -1
    steps: int = 0
    finished: bool = False
    closed: int = 0
    max_steps: int = 0
    tasks: list[str] = field(default_factory=list)

    async def reset(self, task: Task) -> Observation:
        self.episode += 1
        self.steps, self.finished, self.max_steps = 0, False, task.max_steps
        self.tasks.append(task.id)
        await self._suffer("reset")
        return self._observe()

    async def step(self, action: Action) -> StepResult:
        await self._suffer("step")
        self.steps += 1
        self.finished = isinstance(action, Finish)
        return StepResult(self._observe(), self.finished or self.steps >= self.max_steps, {"act": 0.0})

    async def score(self) -> float:
        await self._suffer("score")
        return float(self.finished)

    async def close(self) -> None:
        self.closed += 1

    async def health(self) -> Health:
        return Health(self.ok, "" if self.ok else f"{self.device_id}: offline")

    async def _suffer(self, where: str) -> None:
        kind = self.fault(where, self.episode)
        if kind == "infra":
            raise InfraError(f"{self.device_id}: {where} failed")
        if kind in ("task", "free"):
            raise {"task": TaskFault, "free": FreeReward}[kind](f"{self.tasks[-1]}: {where} raised")
        await asyncio.sleep({"ok": 0.0, "slow": 0.002, "hang": 3600.0}[kind])

    def _observe(self) -> Observation:
        return Observation(b"", 100, 200, XML, "App", self.steps)


@dataclass
class ScriptedActor:
    """Plays `actions[step]` (the last one again when they run out)."""

    actions: Sequence[Action] = (Tap(1, 1), Finish("done"))

    async def decide(self, task, turns, observation, screen, key) -> Decision:
        await asyncio.sleep(0)
        return make_decision(self.actions[min(len(turns), len(self.actions) - 1)], f"response {len(turns)}")


def run(coroutine, timeout: float = 120.0):
    """Runs a coroutine that must not hang, and checks that it leaves no task behind."""

    async def bounded():
        async with asyncio.timeout(timeout):
            result = await coroutine
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return result

    return asyncio.run(bounded())
