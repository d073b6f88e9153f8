"""The figures of a variant over its seeds: success, differences, and figures of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.comparison.intervals import crossed_interval
from benchmarks.comparison.runs import Run, mean_length, template_rates
from mobilerl.statistics import Interval, wilson_interval

LAST = 0.25
"""Share of the budget at its end over which success in training is reported."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval (None for a single number), and the number of seeds."""

    mean: float
    interval: Interval | None
    seeds: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of the runs without a fault; None where there is no such run or it has no such figure."""

    runs: tuple[Run, ...]
    success: Estimate | None
    vs_sft: Estimate | None
    in_training: float | None
    steps_per_success: float | None
    episode_length: float | None
    wall_s: float | None

    @property
    def evaluations(self) -> list[Mapping[str, Any]]:
        return [run.results for run in self.runs if not run.fault]


def summarise(runs: Sequence[Run], sft: Mapping[str, Any], budget: int) -> Summary:
    good = [run for run in runs if not run.fault]
    online = [run for run in good if run.points]
    successes = sum(run.points[-1].successes for run in online)
    walls = [run.wall_s for run in good if run.wall_s is not None]
    return Summary(
        tuple(runs),
        success_of([run.results for run in good]),
        difference([sft], [run.results for run in good]),
        fmean(late_success(run, budget) for run in online) if online else None,
        sum(run.points[-1].steps for run in online) / successes if successes else None,
        fmean(mean_length(run.results) for run in good) if good else None,
        fmean(walls) if walls else None,
    )


def success_of(evaluations: Sequence[Mapping[str, Any]]) -> Estimate | None:
    """The mean over seeds of the mean over templates.

    If all rates are equal, no spread can be seen: the interval is Wilson's for the episodes of a single seed.
    """
    if not evaluations:
        return None
    table = _rates_table([template_rates(results) for results in evaluations])
    interval = crossed_interval(table)
    if interval is None or interval.low == interval.high:
        interval = wilson_interval(evaluations[0]["successes"], evaluations[0]["trials"])
    interval = Interval(max(0.0, interval.low), min(1.0, interval.high))
    return Estimate(float(table.mean()), interval, len(evaluations))


def difference(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Estimate | None:
    """`after - before`, each the evaluations of its seeds, paired by template. None if one of them is empty."""
    if not before or not after:
        return None
    table = _rates_table([template_rates(results) for results in (*after, *before)])
    rows, minus = table[: len(after)], table[len(after) :]
    return Estimate(float(rows.mean() - minus.mean()), crossed_interval(rows, minus), len(after))


def _rates_table(rates: Sequence[Mapping[str, float]]) -> np.ndarray:
    """One row for each of `rates`, one column for each template that is in all of them."""
    names = sorted(set.intersection(*(set(r) for r in rates)))
    return np.array([[r[name] for name in names] for r in rates])


def late_success(run: Run, budget: int) -> float:
    """Success rate of the training episodes in the last quarter of the budget, in whole iterations."""
    earlier = [point for point in run.points[:-1] if point.steps <= (1 - LAST) * budget]
    episodes, successes = (earlier[-1].episodes, earlier[-1].successes) if earlier else (0.0, 0.0)
    last = run.points[-1]
    return (last.successes - successes) / (last.episodes - episodes)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def points(estimate: Estimate | None) -> str:
    """A difference in points, with its interval."""
    if estimate is None:
        return ""
    interval = estimate.interval
    spread = "" if interval is None else f" ({100 * interval.low:+.1f} to {100 * interval.high:+.1f})"
    return f"{100 * estimate.mean:+.1f}{spread}"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows))
