"""Scripts that solve tasks of MiniWoB++ from what an agent sees: the goal and the screen's elements."""

from __future__ import annotations

from mobilerl.envs.base import Action
from mobilerl.policy.screen import Screen
from mobilerl.suites.miniwob import clicking, filling, finding  # noqa: F401 - they register their scripts
from mobilerl.suites.miniwob.scripts import SCRIPTS, Script


class Oracle:
    """Solves one episode of a task. `act` raises LookupError where the script does not fit the page, which is a bug."""

    def __init__(self, template: str) -> None:
        if template not in SCRIPTS:
            raise LookupError(f"the oracle has no script for {template}")
        self._make = SCRIPTS[template]
        self._script: Script | None = None

    def act(self, goal: str, screen: Screen) -> Action:
        try:
            if self._script is None:
                self._script = self._make(goal, screen)
                return next(self._script)
            return self._script.send(screen)
        except StopIteration:
            raise LookupError(f"the page goes on after all that the oracle has done for: {goal}") from None
