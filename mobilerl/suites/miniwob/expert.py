"""The oracle as an agent of evaluations and as the expert that SFT learns from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mobilerl.envs.base import Action, Finish, Observation, Task
from mobilerl.envs.miniwob.env import MiniWoBEnv
from mobilerl.policy.actor import Decision, make_decision
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import Turn
from mobilerl.suites.miniwob.oracle import Oracle

if TYPE_CHECKING:
    from mobilerl.envs.browser.chromium import Chromium


class OwnPage(MiniWoBEnv):
    """A page with a Chromium of its own, which starts at the first task and ends when it is closed."""

    def __init__(self, chromium: Chromium, screenshots: bool) -> None:
        self._chromium, self._seen = chromium, screenshots
        self._opened = False

    async def reset(self, task: Task) -> Observation:
        if not self._opened:
            await self._chromium.open()
            super().__init__("page", await self._chromium.new_page(), self._seen)
            self._opened = True
        else:
            await self.page.clear()
        return await super().reset(task)

    async def close(self) -> None:
        await self._chromium.close()


class OracleExpert:
    """The oracle on the task of its first action."""

    thought = purpose = ""

    def __init__(self) -> None:
        self._oracle: Oracle | None = None

    def act(self, task: Task, observation: Observation, screen: Screen) -> Action:
        self._oracle = self._oracle or Oracle(task.template)
        return self._oracle.act(task.instruction, screen)


class OracleActor:
    """Plays tasks without a script by declaring them done at once, which gives no reward."""

    def __init__(self) -> None:
        self._oracles: dict[str, Oracle] = {}

    async def decide(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen, key: str
    ) -> Decision:
        try:
            if not turns:
                self._oracles[key] = Oracle(task.template)
            return make_decision(self._oracles[key].act(task.instruction, screen))
        except LookupError as lost:
            return make_decision(Finish(), str(lost))
