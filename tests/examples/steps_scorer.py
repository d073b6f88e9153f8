"""Example of a custom reward, from the last screen and the number of steps; see docs/rewards.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mobilerl.envs.base import InfraError, Observation
from mobilerl.records import Trajectory


class StepsScorer:
    """`done(final)` tells whether the last screen shows success; every step costs `per_step`."""

    def __init__(self, done: Callable[[Observation], bool], per_step: float = 0.05) -> None:
        self.done, self.per_step, self.episodes = done, per_step, 0

    async def score(self, trajectory: Trajectory, final: Observation | None) -> float:
        if final is None:
            raise InfraError("there is no last screen")  # the episode is repeated and never counts as a failure
        self.episodes += 1
        return max(0.0, 1.0 - self.per_step * len(trajectory.steps)) if self.done(final) else 0.0

    def metrics(self) -> Mapping[str, float]:
        return {"scorer/episodes": float(self.episodes)}

    async def close(self) -> None:
        pass
