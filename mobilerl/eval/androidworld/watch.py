"""What AndroidWorld says of an episode beyond its trajectory: the goal that was played, free rewards, what failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from envs.androidworld.env import AndroidWorldEnv, Episode
from envs.androidworld.faults import ServerFault
from envs.base import Action, Health, InfraError, Observation, StepResult, Task
from mobilerl.eval.androidworld.journal import Key

T = TypeVar("T")
LATE = "the episode missed its deadline"


def key_of(task: Task) -> Key:
    """Episodes of one evaluation are told apart by task and run, one group each."""
    return task.id, task.params["run"]


@dataclass(slots=True)
class Ledger:
    """By episode: what AndroidWorld said of it, and the kind and text of the last fault it met."""

    episodes: dict[Key, Episode] = field(default_factory=dict)
    faults: dict[Key, tuple[str, str]] = field(default_factory=dict)

    def fault_of(self, key: Key) -> tuple[str, str]:
        return self.faults.get(key, (ServerFault.kind, LATE))


class WatchedEnv:
    """An `AndroidWorldEnv` that writes into a ledger. `started(device_id, task)` is called before a task is set up, and
    `given_up(device_id, fault)` once the server is, until it answers again."""

    def __init__(
        self,
        env: AndroidWorldEnv,
        ledger: Ledger,
        started: Callable[[str, Task], None],
        given_up: Callable[[str, str], None],
    ) -> None:
        self.device_id = env.device_id
        self._env, self._ledger, self._started, self._given_up = env, ledger, started, given_up
        self._told = False
        self._key: Key = ("", 0)

    @property
    def instruction(self) -> str:
        return self._env.instruction

    async def reset(self, task: Task) -> Observation:
        self._key = key_of(task)
        self._started(self.device_id, task)
        return await self._noted(self._env.reset(task))

    async def step(self, action: Action) -> StepResult:
        return await self._noted(self._env.step(action))

    async def score(self) -> float:
        return await self._noted(self._env.score())

    async def close(self) -> None:
        await self._env.close()

    async def health(self) -> Health:
        return await self._env.health()

    async def _noted(self, call: Awaitable[T]) -> T:
        try:
            result = await call
        except InfraError as fault:
            kind = fault.kind if isinstance(fault, ServerFault) else ServerFault.kind
            self._ledger.faults[self._key] = (kind, str(fault))
            if self._env.given_up and not self._told:
                self._given_up(self.device_id, str(fault))
            self._told = self._env.given_up
            raise
        self._told = False
        if self._env.episode is not None:
            self._ledger.episodes[self._key] = self._env.episode
        return result
