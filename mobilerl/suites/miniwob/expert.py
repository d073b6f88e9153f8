"""The oracle as an agent of evaluations and as the expert that SFT learns from."""

from __future__ import annotations

from collections.abc import Sequence

from mobilerl.envs.base import Finish, Observation, Task
from mobilerl.policy.actor import Decision, make_decision
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import Turn
from mobilerl.suites.miniwob.oracle import Oracle


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
