"""Evaluation on MobileGym's own splits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from mobilerl.config import ConfigError, MobileGymSuiteSection, Recipe
from mobilerl.config.types import Positive
from mobilerl.envs.base import Devices, MobileEnv, Task
from mobilerl.envs.commit import commit_of
from mobilerl.envs.mobilegym.env import HEIGHT, LEAST_S, MOST_S, REST_S, WIDTH
from mobilerl.envs.mobilegym.tasks import SUITE, Split
from mobilerl.eval.report import EpisodeResult
from mobilerl.inference.engine_policy import LATE_WAIT_S
from mobilerl.judge.scorer import Scorer, make_scorer
from mobilerl.suites.fleet import fleet_type, make_devices
from mobilerl.suites.mobilegym.training import MobileGymSuite, is_held_out
from mobilerl.suites.plan import Plan


class MobileGymPlan(Plan):
    """The tasks of a split."""

    suite: str = SUITE
    max_wait_s = LATE_WAIT_S
    split: Split = "test"
    instances: Positive = 1
    """Number of instances per task that has parameters."""

    def tasks(self, recipe: Recipe) -> list[Task]:
        found = MobileGymSuite(recipe).make_tasks(self.split, self.instances)
        known = {task.template for task in found}
        if unknown := next((name for name in self.templates if name not in known), None):
            raise ConfigError(f"--template {unknown}: the split {self.split} has no such task")
        return [task for task in found if not self.templates or task.template in self.templates]

    def protocol(self, recipe: Recipe) -> dict[str, Any]:
        settings, own = recipe.suite, not _replaced(recipe)
        assert isinstance(settings, MobileGymSuiteSection)
        if self.split != "train" and not all(map(is_held_out, self.tasks(recipe))):
            raise ValueError(f"leak: a task of the split {self.split} is not held out from training")
        return {
            "mobilegym_commit": commit_of(MobileGymSuite(recipe).checkout),
            "split": self.split,
            "tasks": list(self.templates) or "all",
            "instances_per_template": self.instances,
            "suite.sample_seed": settings.sample_seed,
            "trials": self.trials,
            "answers": "in its answer sheet",
            "actions": "tap, long press, swipe, type (replaces the text), launch, back, home, enter, wait, finish",
            "screen": f"{WIDTH}x{HEIGHT}",
            "screenshot": f"{WIDTH * settings.scale:g}x{HEIGHT * settings.scale:g}, PNG",
            "step_budget": "MobileGym's own, by task",
            "pause_s": [LEAST_S, MOST_S],
            "longest_pause_before_judge_s": REST_S,
            "reward": "its judges" if own else recipe.rollout.scorer or "judge",
            "deadline_s": recipe.agent.deadline_s,
        }

    def part(self, task: Task) -> str:
        return self.split

    def devices(self, recipe: Recipe, count: int, screenshots: bool, out: Path) -> Devices | Sequence[MobileEnv]:
        agent = recipe.agent.model_copy(update={"screenshots": max(recipe.agent.screenshots, 1) if screenshots else 0})
        fleet = recipe.fleet.model_copy(update={"count": count})
        suite = recipe.suite.model_copy(update={"reward": "progress"})  # which tells both
        return make_devices(recipe.model_copy(update={"agent": agent, "fleet": fleet, "suite": suite}), out)

    def describe_devices(self, recipe: Recipe, count: int) -> str:
        return fleet_type(recipe.fleet).describe(recipe, count)

    def scorer(self, recipe: Recipe) -> Scorer | None:
        return make_scorer(recipe)

    def results(self, episodes: Sequence[EpisodeResult], protocol: dict[str, Any]) -> dict[str, Any]:
        """Adds the mean progress, the second figure of the published table, in which errors do not count."""
        valid = [episode for episode in episodes if not episode.is_error]
        shares = [1.0 if episode.success else 2 * episode.reward for episode in valid]
        found = super().results(episodes, protocol)
        judged = protocol["reward"] == "its judges"
        return found | ({"progress_rate": fmean(shares)} if judged and shares else {})


def _replaced(recipe: Recipe) -> bool:
    """Whether something else than the judges of the tasks gives the reward."""
    return bool(recipe.rollout.scorer) or recipe.judge.reward
