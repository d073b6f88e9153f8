"""Metrics of an iteration. Episode metrics are means over trajectories, so long episodes do not count more."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from mobilerl.envs.base import Invalid
from mobilerl.policy.unreadable import Why
from mobilerl.records import Group, Status
from mobilerl.training.source import Collectors

LEARNED = (
    "train/loss",
    "train/kl",
    "train/grad_norm",
    "train/neg_logp",
    "train/clip_frac",
    "train/rollout_prob_diff_max",
)
"""Metrics that every iteration reports; null if there was no update (or no KL term)."""
COUNTED = ("infra_errors", "retried", "lost_groups", "stale_groups")


class IterationWatch:
    """Measures an iteration's phases and the collector's counts."""

    def __init__(self, collector: Collectors, ahead: bool) -> None:
        """With `ahead`, collection continues during updates, so its rate is measured over whole iterations."""
        self._collector, self._ahead = collector, ahead
        self._collected = time.monotonic()
        self._counts, self._busy_s = collector.counts.copy(), collector.busy_s
        self._ended = collector.ended
        self.begin()

    def begin(self) -> None:
        """Starts a new iteration."""
        self._last = self._began = time.monotonic()
        self._parts: dict[str, float] = {}
        self._busy_in: dict[str, float] = {}
        self._busy_last, self._sampled = self._collector.busy_s, self._sampling_s()
        if not self._ahead:
            self._ended = self._collector.ended

    def episodes(self) -> int:
        """Number of episodes that have ended in the current rollout or, with `ahead`, since the end of the last one."""
        return self._collector.ended - self._ended

    def end_phase(self, part: str) -> None:
        """Ends the phase `rollout`, `update` or `publish`, which began with the end of the previous one."""
        now = time.monotonic()
        self._parts[part], self._last = now - self._last, now
        busy = self._collector.busy_s
        self._busy_in[part], self._busy_last = busy - self._busy_last, busy
        if part == "rollout":
            self._sampled = self._sampling_s() - self._sampled
            self._playing_s = now - (self._collected if self._ahead else self._began)
            self._collected, self._ended = now, self._collector.ended

    def metrics(self, groups: Sequence[Group], version: int) -> dict[str, float | None]:
        """Metrics of an iteration whose phases have ended; `version` is the learner's when `groups` were used.

        Counts are since the last call, so that episodes that end while a checkpoint is written count too.
        """
        collector = self._collector
        counts, busy_s = collector.counts - self._counts, collector.busy_s - self._busy_s
        self._counts, self._busy_s = collector.counts.copy(), collector.busy_s
        return {
            **rollout_metrics(groups, version, self._playing_s, busy_s, collector.devices),
            **{f"rollout/{name}": counts.get(name, 0) for name in COUNTED},
            **collector.status(),
            **{f"time/{part}_s": seconds for part, seconds in self._parts.items()},
            **(self._idle(groups) if collector.sampling_s else {}),
        }

    def _idle(self, groups: Sequence[Group]) -> dict[str, float | None]:
        """Seconds of the iteration in which a device, on average, or the model had nothing to do.

        For a device: outside of episodes, in each phase, and in an episode while it waited for a response. For the
        model: in the rollout, while no response was being sampled.
        """
        devices = self._collector.devices
        outside = {part: max(0.0, s - self._busy_in[part] / devices) for part, s in self._parts.items()}
        waited = sum(s.timings.get("policy", 0.0) for g in groups for t in g.trajectories for s in t.steps)
        return {
            **{f"time/idle_device_{part}_s": seconds for part, seconds in outside.items()},
            "time/idle_device_sampling_s": waited / devices,
            "time/idle_model_s": max(0.0, self._parts["rollout"] - self._sampled),
        }

    def _sampling_s(self) -> float:
        return self._collector.sampling_s() if self._collector.sampling_s else 0.0


def rollout_metrics(
    groups: Sequence[Group], version: int, seconds: float, busy_s: float, devices: int
) -> dict[str, float | None]:
    """Metrics of episodes used by learner `version`. Utilization is device-seconds in episodes over all of them."""
    trajectories = [t for g in groups for t in g.trajectories]
    steps = [s for t in trajectories for s in t.steps]
    ages = [version - s.completion.version for s in steps]
    invalid = Counter(s.action.why or Why.MALFORMED for s in steps if isinstance(s.action, Invalid))
    return {
        "rollout/success_rate": _mean([float(t.success) for t in trajectories]),
        "rollout/reward": _mean([t.reward for t in trajectories]),
        "rollout/trajectories": len(trajectories),
        "rollout/trajectories_per_min": 60 * len(trajectories) / seconds if seconds > 0 else None,
        "rollout/steps_per_s": len(steps) / seconds if seconds > 0 else None,
        "rollout/env_utilization": min(1.0, busy_s / (seconds * devices)) if seconds > 0 else None,
        "rollout/episode_len": _mean([len(t.steps) for t in trajectories]),
        "rollout/response_len": _mean([len(s.completion.token_ids) for s in steps]),
        "rollout/invalid_rate": sum(invalid.values()) / len(steps) if steps else None,
        **{f"rollout/invalid/{why}": invalid[why] / len(steps) if steps else None for why in Why},
        "rollout/finished": _mean([float(t.status is Status.FINISHED) for t in trajectories]),
        "rollout/solved_groups": _mean([float(any(t.success for t in g.trajectories)) for g in groups]),
        "staleness/mean": _mean(ages),
        "staleness/max": max(ages, default=None),
    }


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
