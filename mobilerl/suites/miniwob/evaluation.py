"""Evaluation on MiniWoB++, on seeds that are never trained on."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.types import Positive
from mobilerl.envs.base import Devices, MobileEnv, Task
from mobilerl.envs.miniwob.tasks import SPANS, SUITE, Split, is_held_out
from mobilerl.inference.engine_policy import LATE_WAIT_S
from mobilerl.judge.scorer import Scorer, make_scorer
from mobilerl.policy.actor import Actor
from mobilerl.suites.fleet import fleet_type, make_devices
from mobilerl.suites.miniwob.expert import OracleActor
from mobilerl.suites.miniwob.training import MiniWoBSuite
from mobilerl.suites.plan import Plan


class MiniWoBPlan(Plan):
    """Instances of the recipe's tasks."""

    suite: str = SUITE
    max_wait_s = LATE_WAIT_S
    split: Split = "test"
    """`dev` to choose settings, `test` for results, `train` for the training tasks."""
    instances: Positive = 1
    """Number of instances per task."""

    def tasks(self, recipe: Recipe) -> list[Task]:
        suite = MiniWoBSuite(recipe)
        known = suite.templates()
        if unknown := next((name for name in self.templates if name not in known), None):
            raise ConfigError(f"--template {unknown}: it is not among the tasks (suite.subset, tasks.templates)")
        return suite.make_tasks(self.split, range(self.instances), self.templates)

    def protocol(self, recipe: Recipe) -> dict[str, Any]:
        suite = recipe.suite.model_dump(mode="json", exclude={"type"})
        if self.split in ("dev", "test") and not all(map(is_held_out, self.tasks(recipe))):
            raise ValueError("leak: an instance to be evaluated on is not held out from training")
        return {
            **{f"suite.{name}": value for name, value in suite.items()},
            "miniwob": version("miniwob"),
            "split": self.split,
            "seeds_from": SPANS[self.split],
            "instances_per_template": self.instances,
            "trials": self.trials,
            "tasks": list(self.templates or recipe.tasks.templates) or "all",
            "reward": recipe.rollout.scorer or ("judge" if recipe.judge.reward else f"checks, {recipe.suite.reward}"),
            "deadline_s": recipe.agent.deadline_s,
        }

    def part(self, task: Task) -> str:
        return self.split

    def devices(self, recipe: Recipe, count: int, screenshots: bool, out: Path) -> Devices:
        agent = recipe.agent.model_copy(update={"screenshots": max(recipe.agent.screenshots, 1) if screenshots else 0})
        fleet = recipe.fleet.model_copy(update={"count": count})
        return make_devices(recipe.model_copy(update={"agent": agent, "fleet": fleet}), out)

    def describe_devices(self, recipe: Recipe, count: int) -> str:
        return fleet_type(recipe.fleet).describe(recipe, count)

    def scorer(self, recipe: Recipe) -> Scorer | None:
        return make_scorer(recipe)

    def scripted(self, agent: str, seed: int, devices: Devices | Sequence[MobileEnv]) -> Actor:
        return OracleActor() if agent == "expert" else super().scripted(agent, seed, devices)
