"""The figures of every variant, and the tables of docs/results.md made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.comparison.crossed import crossed_interval
from benchmarks.comparison.runs import Run, mean_length, template_rates
from benchmarks.comparison.variants import Group, Variant
from mobilerl.eval.statistics import Interval, wilson_interval

LAST = 0.25
"""Share of the budget at its end over which success in training is reported."""
HEADER = (
    "policy", "seeds", "success", "by seed", "to the warm-up", "to {reference}", "in training", "steps per success",
    "episode", "minutes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval (None where one number is all there is), and how many seeds it is of."""

    mean: float
    interval: Interval | None
    seeds: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A variant's figures over the runs that can be compared; None where there is no such run, or nothing of it."""

    variant: Variant
    runs: tuple[Run, ...]
    success: Estimate | None
    to_warm_up: Estimate | None
    in_training: float | None
    steps_per_success: float | None
    episode_length: float | None
    wall_s: float | None

    @property
    def counted(self) -> list[Run]:
        return [run for run in self.runs if not run.fault]


def summarise(variant: Variant, runs: Sequence[Run], warm_up: Mapping[str, Any], budget: int) -> Summary:
    good = [run for run in runs if not run.fault]
    played = [run for run in good if run.points]
    successes = sum(run.points[-1].successes for run in played)
    walls = [run.wall_s for run in good if run.wall_s is not None]
    return Summary(
        variant,
        tuple(runs),
        success_of([run.results for run in good]),
        difference([warm_up], [run.results for run in good]),
        fmean(late_success(run, budget) for run in played) if played else None,
        sum(run.points[-1].steps for run in played) / successes if successes else None,
        fmean(mean_length(run.results) for run in good) if good else None,
        fmean(walls) if walls else None,
    )


def success_of(evaluations: Sequence[Mapping[str, Any]]) -> Estimate | None:
    """The mean over seeds of the mean over templates.

    Where all templates of all seeds have one and the same rate, no spread is seen; Wilson's interval for the episodes
    of a single seed stands for it then.
    """
    if not evaluations:
        return None
    table = rates_table([template_rates(results) for results in evaluations])
    interval = crossed_interval(table)
    if interval is None or interval.low == interval.high:
        interval = wilson_interval(evaluations[0]["successes"], evaluations[0]["trials"])
    low, high = max(0.0, interval.low), min(1.0, interval.high)
    return Estimate(float(table.mean()), Interval(low, high), len(evaluations))


def difference(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Estimate | None:
    """`after - before`, each the evaluations of its seeds; paired by template. None when one of them is empty."""
    if not before or not after:
        return None
    table = rates_table([template_rates(results) for results in (*after, *before)])
    rows, minus = table[: len(after)], table[len(after) :]
    return Estimate(float(rows.mean() - minus.mean()), crossed_interval(rows, minus), len(after))


def rates_table(rates: Sequence[Mapping[str, float]]) -> np.ndarray:
    """One row for each of `rates`, one column for each template that is in all of them."""
    names = sorted(set.intersection(*(set(r) for r in rates)))
    return np.array([[r[name] for name in names] for r in rates])


def late_success(run: Run, budget: int) -> float:
    """Success rate of the training episodes in the last quarter of the budget, in whole iterations."""
    begin = (1 - LAST) * budget
    earlier = [point for point in run.points[:-1] if point.steps <= begin]
    episodes, successes = (earlier[-1].episodes, earlier[-1].successes) if earlier else (0.0, 0.0)
    last = run.points[-1]
    return (last.successes - successes) / (last.episodes - episodes)


def against(reference: Summary, other: Summary) -> Estimate | None:
    if reference.variant == other.variant:
        return None
    return difference(*([run.results for run in side.counted] for side in (reference, other)))


# --- Markdown ----------------------------------------------------------------------------------------------------


def group_table(group: Group, summaries: Mapping[str, Summary], warm_up: Mapping[str, Any]) -> str:
    """The warm-up and the members of a group, in the group's order."""
    reference = summaries[group.reference]
    rows = [_warm_up_row(warm_up)]
    rows += [_row(summaries[name], against(reference, summaries[name])) for name in group.members]
    header = [cell.format(reference=reference.variant.title) for cell in HEADER]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows))


def _warm_up_row(warm_up: Mapping[str, Any]) -> list[str]:
    return ["warm-up", "", rate(success_of([warm_up])), *[""] * 5, f"{mean_length(warm_up):.1f}", ""]


def _row(summary: Summary, change: Estimate | None) -> list[str]:
    good, runs = summary.counted, summary.runs
    late, per_success = summary.in_training, summary.steps_per_success
    length, wall = summary.episode_length, summary.wall_s
    return [
        summary.variant.title,
        str(len(runs)) if len(good) == len(runs) else f"{len(good)} of {len(runs)}",
        rate(summary.success),
        ", ".join(f"{100 * success_of([run.results]).mean:.1f}" for run in good),
        points(summary.to_warm_up),
        points(change),
        "" if late is None else f"{100 * late:.1f} %",
        "" if per_success is None else f"{per_success:.1f}",
        "" if length is None else f"{length:.1f}",
        "" if wall is None else f"{wall / 60:.1f}",
    ]


def rate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "--"
    return f"{100 * estimate.mean:.1f} % ({100 * estimate.interval.low:.1f} to {100 * estimate.interval.high:.1f})"


def points(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    interval = estimate.interval
    spread = "" if interval is None else f" ({100 * interval.low:+.1f} to {100 * interval.high:+.1f})"
    return f"{100 * estimate.mean:+.1f}{spread}"
