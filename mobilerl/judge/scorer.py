"""Scorers, which give rewards instead of the environment's own check: the judge, or your own code."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.named import load_named
from mobilerl.envs.base import InfraError, Observation
from mobilerl.records import Trajectory

if TYPE_CHECKING:
    from mobilerl.judge.judge import Judge
    from mobilerl.judge.verdict import Verdict


class NoVerdict(InfraError):
    """The judge gave no verdict, and the episode gets no reward."""


Solved = Callable[[Trajectory, Observation], Awaitable[bool]]
"""(episode so far, the screen after its last action) -> whether its task is done. May raise NoVerdict."""


class Scorer(Protocol):
    """Gives the reward of an episode, in [0, 1]."""

    async def score(self, trajectory: Trajectory, final: Observation | None) -> float:
        """Returns the reward; `final` is the observation after the last step. May raise InfraError.

        The collector checks the reward (`mobilerl.rollout.reward`), which may be a number of any type.
        """

    def metrics(self) -> Mapping[str, float]:
        """Counters for metrics.jsonl, by full name."""

    async def close(self) -> None: ...


class OwnScorer:
    """The scorer of a user: a function of the trajectory and the last observation, or an object with `score` and, if it
    likes, `metrics` and `close`. Functions and methods may be coroutine functions."""

    def __init__(self, name: str, target: Any) -> None:
        """Raises ConfigError if `target` cannot be called as a scorer. `name` is for messages."""
        self.name = name
        self._target, self._score = target, getattr(target, "score", target)
        if not callable(self._score):
            raise ConfigError(f"{name} is {target!r}: give a function, or a class with a method `score`")
        if problem := _misfit(self._score, None, None):
            raise ConfigError(f"{name} cannot be called with the trajectory and the last screen: {problem}")

    async def score(self, trajectory: Trajectory, final: Observation | None) -> Any:
        return await _result(self._score(trajectory, final))

    def metrics(self) -> Mapping[str, float]:
        return self._target.metrics() if hasattr(self._target, "metrics") else {}

    async def close(self) -> None:
        if hasattr(self._target, "close"):
            await _result(self._target.close())


def _misfit(function: Any, *arguments: object) -> str:
    """Why a function cannot be called with these arguments; "" if it can, or if an extension does not tell."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        return str(error)
    except ValueError:
        pass
    return ""


async def _result(said: Any) -> Any:
    return await said if inspect.isawaitable(said) else said


def own_scorer(name: str) -> Scorer:
    """Loads the scorer `module:name`, a function or a class without arguments. Raises ConfigError if it is missing."""
    try:
        found = load_named(name, "rollout.scorer")
    except ImportError as error:
        raise ConfigError(f"rollout.scorer = {name!r} cannot be imported ({error}): install what it needs") from error
    if inspect.isclass(found):
        if problem := _misfit(found):
            raise ConfigError(f"rollout.scorer = {name!r} is a class that needs arguments: {problem}")
        found = found()
    return OwnScorer(f"rollout.scorer = {name!r}", found)


def make_scorer(recipe: Recipe, processes: int = 1) -> Scorer | None:
    """Makes the scorer that replaces the tasks' own checks; None if there is none. `processes` share the judge."""
    if recipe.rollout.scorer:
        return own_scorer(recipe.rollout.scorer)
    if not recipe.judge.reward:
        return None
    from mobilerl.judge.judge import Judge

    return JudgeScorer(Judge(recipe.judge.shared_by(processes)))


class JudgeScorer:
    """Rewards successes with 1.0 and failures with 0.0. Raises NoVerdict if the judge gives no verdict."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    async def score(self, trajectory: Trajectory, final: Observation | None) -> float:
        return float(_decided(await self.judge.verdict(trajectory, final)))

    @property
    def solved(self) -> Solved | None:
        """Judges an episode that is still running; None unless `judge.every_step`."""
        return self._solved if self.judge.settings.every_step else None

    async def _solved(self, trajectory: Trajectory, final: Observation) -> bool:
        return _decided(await self.judge.judge(self.judge.case(trajectory, final)))

    def metrics(self) -> Mapping[str, float]:
        return self.judge.metrics()

    async def close(self) -> None:
        await self.judge.close()


def _decided(verdict: Verdict) -> bool:
    """Raises NoVerdict if there is none."""
    if verdict.success is None:
        raise NoVerdict(f"no verdict from the judge: {verdict.reason}")
    return verdict.success
