"""Verdicts as rewards: what a rollout can call in place of the env's own check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from envs.base import InfraError, Observation
from mobilerl.records import Trajectory

if TYPE_CHECKING:
    from mobilerl.judge.judge import Judge


class NoVerdict(InfraError):
    """The judge gave no verdict. Neither the agent nor the device is to blame, so no reward follows from it."""


class Scorer(Protocol):
    """Gives an episode its reward, in [0, 1], once it has been played."""

    async def score(self, trajectory: Trajectory, final: Observation | None) -> float:
        """`trajectory.reward` means nothing yet; `final` is what was seen after its last step. May raise InfraError."""

    def metrics(self) -> Mapping[str, float]:
        """Counters for metrics.jsonl, by their full names."""

    async def close(self) -> None: ...


class JudgeScorer:
    """1.0 for a success, 0.0 for a failure, NoVerdict for neither."""

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
