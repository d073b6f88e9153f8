"""What an iteration's episodes say, per trajectory (long episodes do not count more)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from envs.base import Invalid
from mobilerl.records import Group, Status


def rollout_metrics(
    groups: Sequence[Group], version: int, seconds: float, busy_s: float, devices: int
) -> dict[str, float | None]:
    """`version`: the learner's when the episodes are used. Utilisation: device-seconds in episodes / all of them."""
    trajectories = [t for g in groups for t in g.trajectories]
    steps = [s for t in trajectories for s in t.steps]
    ages = [version - s.completion.version for s in steps]
    invalid = sum(isinstance(s.action, Invalid) for s in steps)
    return {
        "rollout/success_rate": _mean([float(t.success) for t in trajectories]),
        "rollout/reward": _mean([t.reward for t in trajectories]),
        "rollout/trajectories": len(trajectories),
        "rollout/trajectories_per_min": 60 * len(trajectories) / seconds if seconds > 0 else None,
        "rollout/steps_per_s": len(steps) / seconds if seconds > 0 else None,
        "rollout/env_utilization": min(1.0, busy_s / (seconds * devices)) if seconds > 0 else None,
        "rollout/episode_len": _mean([len(t.steps) for t in trajectories]),
        "rollout/invalid_rate": invalid / len(steps) if steps else None,
        "rollout/finished": _mean([float(t.status is Status.FINISHED) for t in trajectories]),
        "rollout/solved_groups": _mean([float(any(t.success for t in g.trajectories)) for g in groups]),
        "staleness/mean": _mean(ages),
        "staleness/max": max(ages, default=None),
    }


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
