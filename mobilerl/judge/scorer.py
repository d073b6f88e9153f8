"""Scorers, which give rewards instead of the environment's own check: the judge, or your own code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from envs.base import InfraError, Observation
from mobilerl.config import ConfigError, Recipe
from mobilerl.records import Trajectory

if TYPE_CHECKING:
    from mobilerl.judge.judge import Judge


class NoVerdict(InfraError):
    """The judge gave no verdict, and the episode gets no reward."""


class Scorer(Protocol):
    """Gives the reward of an episode, in [0, 1]."""

    async def score(self, trajectory: Trajectory, final: Observation | None) -> float:
        """Returns the reward; `final` is the observation after the last step. May raise InfraError."""

    def metrics(self) -> Mapping[str, float]:
        """Counters for metrics.jsonl, by full name."""

    async def close(self) -> None: ...


class FunctionScorer:
    """Takes the reward from a function, or coroutine function, of the trajectory and the last observation."""

    def __init__(self, function: Callable[[Trajectory, Observation | None], Any]) -> None:
        self.function = function

    async def score(self, trajectory: Trajectory, final: Observation | None) -> float:
        """Raises ValueError for an invalid reward, since a bug must not count as a failure of the agent."""
        said = self.function(trajectory, final)
        reward = await said if inspect.isawaitable(said) else said
        if not isinstance(reward, (int, float)) or not 0.0 <= reward <= 1.0:
            raise ValueError(f"{self.function.__name__} returned {reward!r}: a reward is a number from 0 to 1")
        return float(reward)

    def metrics(self) -> Mapping[str, float]:
        return {}

    async def close(self) -> None:
        """Does nothing."""


def own_scorer(name: str) -> Scorer:
    """Loads the scorer `module:name`, a function or a class without arguments. Raises ConfigError if it is missing."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"collect.scorer = {name!r} cannot be imported ({error}): install its package here, or add its folder to "
            "PYTHONPATH"
        ) from error
    return found() if inspect.isclass(found) else FunctionScorer(found)


def make_scorer(recipe: Recipe, processes: int = 1) -> Scorer | None:
    """Makes the scorer that replaces the tasks' own checks; None if there is none. `processes` share the judge."""
    if recipe.collect.scorer:
        return own_scorer(recipe.collect.scorer)
    if not recipe.judge.reward:
        return None
    from mobilerl.judge.judge import Judge

    return JudgeScorer(Judge(recipe.judge.shared_by(processes)))


class JudgeScorer:
    """Rewards successes with 1.0 and failures with 0.0. Raises NoVerdict if the judge gives no verdict."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    async def score(self, trajectory: Trajectory, final: Observation | None) -> float:
        verdict = await self.judge.verdict(trajectory, final)
        if verdict.success is None:
            raise NoVerdict(f"no verdict from the judge: {verdict.reason}")
        return float(verdict.success)

    def metrics(self) -> Mapping[str, float]:
        return self.judge.metrics()

    async def close(self) -> None:
        await self.judge.close()
