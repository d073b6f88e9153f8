"""The scripted expert of a task as an agent: screen in, action out; pop-ups are dismissed."""

from __future__ import annotations

from collections.abc import Iterator

from mobilerl.envs.base import Action, Observation
from mobilerl.envs.phone.tasks.base import Template
from mobilerl.envs.phone.tasks.ui import UI


class ExpertAgent:
    """Acts for one episode of `task`. A `LookupError` from `act` is a bug of the script, not of the device."""

    def __init__(self, task: Template) -> None:
        self._ui = UI(task.language)
        self._script: Iterator[Action] = task.expert(self._ui)

    def act(self, observation: Observation) -> Action:
        """The next action. The script only goes on while no pop-up covers the screen."""
        self._ui.observe(observation)
        button = self._ui.popup_button()
        if button is not None:
            return self._ui.tap(button)
        try:
            return next(self._script)
        except StopIteration:
            raise LookupError("the expert's script ended without `finish`") from None
