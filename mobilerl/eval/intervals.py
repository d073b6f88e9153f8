"""Confidence intervals of a mean over training seeds and task templates, and of a difference of two such means.

A table has one number per seed (row) and template (column): y_st, with mean m, row means r_s and column means c_t. With
V_S = sum_s (r_s - m)^2 / (S (S-1)), V_T the same over templates and V_ST = sum (y_st - r_s - c_t + m)^2 /
((S-1) (T-1) S T), the unbiased estimate of Var(m) in the crossed random-effects model is V_S + V_T - V_ST. For a
difference of two tables with the same templates, V_T is that of the differences c_t - c'_t, which pairs the templates;
the seeds of the two are independent, so their V_S and V_ST add up. If the estimate is below V_T or the sum of the V_S,
the larger of these is used. Degrees of freedom follow Satterthwaite (1946). A table of one row adds no V_S.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from mobilerl.eval.statistics import Interval, student_p, student_quantile
from mobilerl.records import Status

Part = tuple[float, float]
"""A variance and its degrees of freedom."""


class Crossed(NamedTuple):
    interval: Interval
    """95 % interval."""
    p: float
    """Two-sided p-value of the mean being 0."""


def crossed(table: np.ndarray, minus: np.ndarray | None = None) -> Crossed | None:
    """Interval and p-value of the mean of `table` (seeds x templates), minus that of `minus` if given.

    Both have the same templates. Returns None for a single template and seed, which have no spread.
    """
    tables = [table] if minus is None else [table, minus]
    columns = tables[0].mean(axis=0) - sum(t.mean(axis=0) for t in tables[1:])
    by_template = [_of_mean(columns)] if len(columns) > 1 else []
    by_seed = [_of_mean(t.mean(axis=1)) for t in tables if len(t) > 1]
    shared = [_of_residual(t) for t in tables if len(t) > 1 and by_template]
    variance, freedom = max(_sum(by_template), _sum(by_seed), _sum(by_template + by_seed, shared))
    if freedom == 0:
        return None
    mean = float(tables[0].mean()) - sum(float(t.mean()) for t in tables[1:])
    deviation = math.sqrt(variance)
    half = student_quantile(freedom) * deviation
    p = student_p(mean / deviation, freedom) if deviation else float(mean == 0)
    return Crossed(Interval(mean - half, mean + half), p)


def _of_mean(values: np.ndarray) -> Part:
    freedom = len(values) - 1
    return float(((values - values.mean()) ** 2).sum()) / (len(values) * freedom), freedom


def _of_residual(table: np.ndarray) -> Part:
    residual = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0, keepdims=True) + table.mean()
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    return float((residual**2).sum()) / (freedom * table.size), freedom


def _sum(added: Sequence[Part], subtracted: Sequence[Part] = ()) -> Part:
    total = sum(variance for variance, _ in added) - sum(variance for variance, _ in subtracted)
    spread = sum(variance**2 / freedom for variance, freedom in (*added, *subtracted))
    least = min((freedom for _, freedom in added), default=0)
    return total, max(total**2 / spread, least) if spread > 0 else least


def rates_table(evaluations: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Table of success rates with a row per evaluation and a column per template that all of them have episodes of."""
    rates = [rates_of(results) for results in evaluations]
    names = sorted(set.intersection(*map(set, rates)))
    return np.array([[found[name] for name in names] for found in rates])


def rates_of(results: Mapping[str, Any]) -> dict[str, float]:
    """Success rate of each template of a results.json."""
    outcomes: dict[str, list[bool]] = {}
    for episode in valid_episodes(results):
        outcomes.setdefault(episode["template"], []).append(episode["success"])
    return {name: fmean(values) for name, values in outcomes.items()}


def valid_episodes(results: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Episodes of a results.json that did not end with a failing device."""
    return [e for e in results["instances"] if e["status"] != Status.INFRA_ERROR]
