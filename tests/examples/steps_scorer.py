"""A reward of your own, as docs/guides/reward.md describes one: for what the last screen shows, less for every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from envs.base import InfraError, Observation
from mobilerl.records import Trajectory


class StepsScorer:
    """`done(final)` says whether the last screen shows the task done; every step costs `per_step`."""

    def __init__(self, done: Callable[[Observation], bool], per_step: float = 0.05) -> None:
        self.done, self.per_step, self.episodes = done, per_step, 0

    async def score(self, trajectory: Trajectory, final: Observation | None) -> float:
        if final is None:
            raise InfraError("nobody saw the last screen")  # played again, and never a failure of the agent
        self.episodes += 1
        return max(0.0, 1.0 - self.per_step * len(trajectory.steps)) if self.done(final) else 0.0

    def metrics(self) -> Mapping[str, float]:
        return {"scorer/episodes": float(self.episodes)}

    async def close(self) -> None:
        pass
