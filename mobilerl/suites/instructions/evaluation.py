"""Evaluation on a file of instructions, on adb devices, containers or embedded phones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from mobilerl.config import Recipe
from mobilerl.envs.base import Devices, MobileEnv, Task
from mobilerl.envs.instructions.tasks import SUITE
from mobilerl.inference.engine_policy import LATE_WAIT_S
from mobilerl.judge.scorer import Scorer, make_scorer
from mobilerl.suites.fleet import check_devices, fleet_type, make_devices
from mobilerl.suites.instructions.training import make
from mobilerl.suites.instructions.web import WebInstructionsSuite
from mobilerl.suites.plan import Plan
from mobilerl.system.terminal import say


class InstructionsPlan(Plan):
    """Tasks of the recipe's `suite.file`, with the reward of training: checks, a judge, or a scorer."""

    suite: str = SUITE
    max_wait_s = LATE_WAIT_S
    split: Literal["train", "test", "all"] = "all"

    def tasks(self, recipe: Recipe) -> list[Task]:
        check_devices(recipe)
        return make(recipe).tasks(("train", "test") if self.split == "all" else (self.split,), self.templates)

    def protocol(self, recipe: Recipe) -> dict[str, Any]:
        suite, fleet = make(recipe), recipe.fleet
        drawn = suite.embedded or isinstance(suite, WebInstructionsSuite)
        where = {"screen": recipe.phone.screen} if drawn else {"reset": fleet.reset}
        return {
            "file": suite.file.name,
            "file_sha256": hashlib.sha256(suite.file.read_bytes()).hexdigest(),
            "split": self.split,
            "tasks": list(self.templates) or "all",
            "trials": self.trials,
            "reward": recipe.rollout.scorer or ("judge" if recipe.judge.reward else "checks"),
            "free_reward": suite.judged,
            "fleet": fleet.type,
            **where,
            "deadline_s": recipe.agent.deadline_s,
        }

    def part(self, task: Task) -> str:
        return task.params["split"]

    def devices(self, recipe: Recipe, count: int, screenshots: bool, out: Path) -> Devices | Sequence[MobileEnv]:
        recipe = recipe.model_copy(update={"fleet": recipe.fleet.model_copy(update={"count": count})})
        suite = make(recipe)
        if isinstance(suite, WebInstructionsSuite):
            suite.check_answers()
        return suite.phones() or make_devices(recipe, out)

    def unrunnable(self, recipe: Recipe, tasks: Sequence[Task]) -> Mapping[str, str]:
        found = make(recipe).findings(tasks)
        for line in (*(f"{reason}: the task is not played" for reason in found.unrunnable.values()), *found.warnings):
            say(line)
        return found.unrunnable

    def describe_devices(self, recipe: Recipe, count: int) -> str:
        return fleet_type(recipe.fleet).describe(recipe, count)

    def scorer(self, recipe: Recipe) -> Scorer | None:
        return make_scorer(recipe)
