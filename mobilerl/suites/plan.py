"""The episodes of an evaluation: its tasks, devices, protocol and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pydantic import PrivateAttr

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.types import Positive, Section, Weight
from mobilerl.envs.base import Devices, MobileEnv, Task
from mobilerl.eval.agents import scripted_actor
from mobilerl.eval.report import EpisodeResult, build_results
from mobilerl.inference.engine_policy import LATE_WAIT_S
from mobilerl.judge.scorer import Scorer, make_scorer
from mobilerl.policy.actor import Actor
from mobilerl.suites.base import is_held_out, make_suite
from mobilerl.suites.fleet import FLEETS, make_devices

if TYPE_CHECKING:
    from mobilerl.envs.phone.env import PhoneEnv


class Plan(Section):
    """The episodes to run. Subclasses of each suite define the tasks and devices."""

    max_wait_s: ClassVar[float | None] = None
    """As in `EnginePolicy`; devices that do not run in lockstep must not wait for each other."""
    suite: str
    """Name of the suite in results.json."""
    trials: Positive = 1
    """Number of episodes per instance."""
    temperature: Weight = 0.0
    """Sampling temperature; 0 is greedy."""
    templates: tuple[str, ...] = ()
    """Templates to evaluate on; empty for all."""
    shuffle_screens: bool = False
    """Show every prompt of a checkpoint the screenshots of another episode, as a control."""

    def tasks(self, recipe: Recipe) -> list[Task]:
        """Tasks to evaluate on, asked for first. Raises ConfigError if there are none."""
        raise NotImplementedError

    def protocol(self, recipe: Recipe) -> dict[str, Any]:
        """Part of the protocol that does not depend on the agent. Raises ValueError if train and test overlap."""
        raise NotImplementedError

    def part(self, task: Task) -> str:
        """Part of the suite that a task belongs to."""
        raise NotImplementedError

    def devices(self, recipe: Recipe, count: int, screenshots: bool, out: Path) -> Devices | Sequence[MobileEnv]:
        """Makes at most `count` devices."""
        raise NotImplementedError

    def describe_devices(self, recipe: Recipe, count: int) -> str:
        """At most `count` devices in words."""
        return FLEETS["embedded"].describe(recipe, count)

    def scripted(self, agent: str, seed: int, devices: Devices | Sequence[MobileEnv]) -> Actor:
        """The agent without a model of this name."""
        envs = cast("Sequence[PhoneEnv]", devices if isinstance(devices, Sequence) else ())  # of the expert
        return scripted_actor(agent, seed, envs)

    def scorer(self, recipe: Recipe) -> Scorer | None:
        """Scorer that replaces the tasks' own checks; None for the checks."""
        return None

    def unrunnable(self, recipe: Recipe, tasks: Sequence[Task]) -> Mapping[str, str]:
        """Reasons by task id why tasks can run on no device, as far as that shows before the first episode."""
        return {}

    def results(self, episodes: Sequence[EpisodeResult], protocol: dict[str, Any]) -> dict[str, Any]:
        """Content of results.json."""
        return build_results(self.suite, protocol, episodes)


class SuitePlan(Plan):
    """The held-out tasks of the recipe's suite, in the environments of its training."""

    max_wait_s = LATE_WAIT_S
    instances: Positive = 1
    """Number of instances per template."""
    _parts: dict[str, str] = PrivateAttr(default_factory=dict)
    """Names of the parts that the suite divides its held-out tasks into, by task id."""

    def tasks(self, recipe: Recipe) -> list[Task]:
        held_out = make_suite(recipe).held_out(self.instances)
        self._parts.update({task.id: part for part, tasks in held_out.items() for task in tasks})
        tasks = [task for part in held_out.values() for task in part]
        for name in set(self.templates) - {task.template for task in tasks}:
            raise ConfigError(f"--template {name}: the suite {self.suite} has no held-out tasks of it")
        if not tasks:
            raise ConfigError(f"the suite {self.suite} has no held-out tasks to evaluate on")
        if leaked := next((task for task in tasks if not is_held_out(task)), None):
            raise ValueError(f"leak: {leaked.id} is to be evaluated on, but is not held out from training")
        return [task for task in tasks if not self.templates or task.template in self.templates]

    def protocol(self, recipe: Recipe) -> dict[str, Any]:
        settings = recipe.suite.model_dump(mode="json", exclude={"type"})
        return {
            **{f"suite.{name}": value for name, value in settings.items()},
            "instances_per_template": self.instances,
            "trials": self.trials,
            "templates": list(self.templates) or "all",
            "leak_guard": f"passed: the suite holds out all {len(self._parts)} tasks from training",
            "reward": recipe.rollout.scorer or ("judge" if recipe.judge.reward else "checks"),
            "fleet": recipe.fleet.type,
            "deadline_s": recipe.agent.deadline_s,
        }

    def part(self, task: Task) -> str:
        return self._parts[task.id]

    def devices(self, recipe: Recipe, count: int, screenshots: bool, out: Path) -> Devices | Sequence[MobileEnv]:
        recipe = recipe.model_copy(update={"fleet": recipe.fleet.model_copy(update={"count": count})})
        own = make_suite(recipe).open(out)[1]
        if own is None:
            return make_devices(recipe, out)
        return own[:count] if isinstance(own, Sequence) else own

    def describe_devices(self, recipe: Recipe, count: int) -> str:
        return f"at most {count}"

    def scorer(self, recipe: Recipe) -> Scorer | None:
        return make_scorer(recipe)

    def results(self, episodes: Sequence[EpisodeResult], protocol: dict[str, Any]) -> dict[str, Any]:
        return results_by_part(self.suite, protocol, episodes, episodes[0].split)


def results_by_part(
    suite: str, protocol: dict[str, Any], episodes: Sequence[EpisodeResult], headline: str
) -> dict[str, Any]:
    """Content of results.json with the figures of the part `headline`, or else of the first; the others in `parts`."""
    names = dict.fromkeys(episode.split for episode in episodes)
    by_part = {name: build_results(suite, protocol, [e for e in episodes if e.split == name]) for name in names}
    headline = headline if headline in by_part else next(iter(by_part))
    results = by_part.pop(headline)
    return results | {"part": headline, "parts": {name: summary(found) for name, found in by_part.items()}}


def summary(results: dict[str, Any]) -> dict[str, Any]:
    """Figures in results.json of a part other than the headline."""
    return {k: results[k] for k in ("success_rate", "ci95", "trials", "successes", "errors", "instances")}
