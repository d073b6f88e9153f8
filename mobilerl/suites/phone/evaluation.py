"""Evaluation on the embedded phone's tasks (`sim`).

The splits `dev` and `test` have held-out instances, whose goals and seeds are never trained on. Those of training
templates give the headline `success_rate`; those of templates never trained on are reported as `unseen_templates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.types import Positive
from mobilerl.envs.base import MobileEnv, Task
from mobilerl.envs.phone.tasks import suite
from mobilerl.envs.phone.tasks.suite import Split
from mobilerl.eval.report import UNSEEN, EpisodeResult, build_results
from mobilerl.suites.phone.training import make_phones
from mobilerl.suites.plan import Plan, summary

STEP_BUDGET = "2 x steps of the expert + 2"
HELD_OUT: tuple[Split, ...] = ("dev", "test")


class PhonePlan(Plan):
    """Tasks on embedded phones, generated from templates and seeds."""

    instances: Positive = 1
    """Number of instances per template."""

    def guard(self, recipe: Recipe) -> dict[str, Any]:
        """Part of the protocol about the suite. Raises ValueError if its train and test splits overlap."""
        raise NotImplementedError

    def protocol(self, recipe: Recipe) -> dict[str, Any]:
        return {
            "instances_per_template": self.instances,
            "trials": self.trials,
            "templates": list(self.templates) or "all",
            **self.guard(recipe),
            "step_budget": STEP_BUDGET,
            "screen": recipe.phone.screen,
            "popup_rate": recipe.phone.popup_rate,
            "languages": list(recipe.phone.languages),
            "deadline_s": recipe.agent.deadline_s,
        }

    def devices(self, recipe: Recipe, count: int, screenshots: bool, out: Path) -> Sequence[MobileEnv]:
        return make_phones(recipe.phone, count, screenshots)


class SimPlan(PhonePlan):
    """Tasks of the embedded phone's own apps."""

    suite: str = "sim"
    split: Split | Literal["all"] = "test"
    """`train` for training instances, `dev` or `test` for held-out instances of the training templates and of those
    that the split has for itself, `all` for all three."""

    def tasks(self, recipe: Recipe) -> list[Task]:
        for name in self.templates:
            if not suite.is_template(name):
                raise ConfigError(f"no task template is called {name!r}; `mobilerl eval sim --list` shows them all")
        splits = suite.SPLITS if self.split == "all" else (self.split,)
        tasks = [task for split in splits for task in self._instances(split)]
        if not tasks:
            raise ConfigError(
                f"--split {self.split} has no tasks of {', '.join(self.templates)}; --split all has every template"
            )
        return tasks

    def _instances(self, split: Split) -> list[Task]:
        if split == "train":
            return suite.train_tasks(self.instances, chosen=self.templates)
        return suite.held_out_tasks(self.instances, split, self.templates)

    def guard(self, recipe: Recipe) -> dict[str, Any]:
        trained = suite.train_tasks(
            max(recipe.tasks.per_template, recipe.sft.demos_per_template), chosen=recipe.tasks.templates
        )
        developed, tested = (suite.held_out_tasks(self.instances, split, self.templates) for split in HELD_OUT)
        suite.check_no_leak(trained, developed, tested)
        counted = f"{len(trained)} training, {len(developed)} dev and {len(tested)} test instances"
        return {
            "split": self.split,
            "suite_templates": len(suite.TEMPLATES),
            "held_out_seeds_from": suite.HELD_OUT_SEEDS,
            "leak_guard": f"passed: {counted} share no goals or seeds",
        }

    def part(self, task: Task) -> str:
        return suite.template(task.template).split

    def results(self, episodes: Sequence[EpisodeResult], protocol: dict[str, Any]) -> dict[str, Any]:
        unseen = [e for e in episodes if e.split != "train"]
        seen = [e for e in episodes if e.split == "train"]
        results = build_results(self.suite, protocol, seen or unseen)
        if seen and unseen:
            beside = build_results(self.suite, protocol, unseen)
            results["per_task"] |= beside["per_task"]
            results[UNSEEN] = summary(beside)
        return results
