"""A file of instructions as a training suite, on any fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mobilerl.config import ConfigError, InstructionsSuiteSection, Recipe
from mobilerl.envs.base import MobileEnv, Task, Transport
from mobilerl.envs.instructions.env import InstructionEnv
from mobilerl.envs.instructions.tasks import Instruction, InstructionFile, make_task, read
from mobilerl.envs.live_device import Settle
from mobilerl.envs.phone.apps.catalogue import APP_NAMES, APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.transport import InProcessTransport
from mobilerl.suites.instructions.file import FileOfInstructions, is_held_out
from mobilerl.suites.instructions.web import WebInstructionsSuite

__all__ = ["InstructionsSuite", "is_held_out", "make"]
STILL = Settle(limit_s=0.0)
"""Embedded phones need no time to settle, as their screens do not move by themselves."""


class InstructionsSuite(FileOfInstructions[Instruction]):
    """Implements `mobilerl.suites.base.Suite`."""

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.suite, InstructionsSuiteSection)
        super().__init__(recipe)

    def read(self) -> InstructionFile[Instruction]:
        return read(self.file)

    def make_task(self, instruction: Instruction) -> Task:
        if not instruction.checked and not self.judged:
            raise ConfigError(
                f"suite.file: task {instruction.id!r} of {self.file} has neither `check` nor `answer`: give one, or "
                "let a judge (judge.reward) or your own code (rollout.scorer) give the reward"
            )
        return make_task(instruction)

    @property
    def embedded(self) -> bool:
        return self._recipe.fleet.type == "embedded"

    def phones(self) -> Sequence[MobileEnv] | None:
        if not self.embedded:
            return None
        phone, apps = self._recipe.phone, {**APP_NAMES, **self._read().apps}
        return [
            InstructionEnv(
                f"sim-{i}",
                InProcessTransport(Phone(APPS, phone.width, phone.height), f"sim-{i}"),
                apps,
                self.judged,
                STILL,
            )
            for i in range(self._recipe.fleet.count)
        ]

    def env_factory(self) -> Callable[..., MobileEnv]:
        apps, free = self._read().apps, self.judged

        def make(device_id: str, transport: Transport) -> InstructionEnv:
            return InstructionEnv(device_id, transport, apps, free)

        return make


def make(recipe: Recipe) -> InstructionsSuite | WebInstructionsSuite:
    assert isinstance(recipe.suite, InstructionsSuiteSection)
    return WebInstructionsSuite(recipe) if recipe.suite.url else InstructionsSuite(recipe)
