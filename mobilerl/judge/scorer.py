"""Verdicts as rewards, in place of an environment's own check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from envs.base import InfraError, Observation
from mobilerl.records import Trajectory

if TYPE_CHECKING:
    from mobilerl.judge.judge import Judge


class NoVerdict(InfraError):
    """The judge gave no verdict, and the episode gets no reward."""


class Scorer(Protocol):
    """Rewards a finished episode, in [0, 1]."""

    async def score(self, trajectory: Trajectory, final: Observation | None) -> float:
        """`trajectory.reward` is not set yet; `final` is the observation after the last step. May raise InfraError."""

    def metrics(self) -> Mapping[str, float]:
        """Counters for metrics.jsonl by full name."""

    async def close(self) -> None: ...


class JudgeScorer:
    """1.0 for a success, 0.0 for a failure; raises NoVerdict for neither."""

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
