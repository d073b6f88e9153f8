"""How sure a mean over training seeds and task templates is, and a difference of two, when both are samples.

A table holds one number per seed (row) and template (column): y_st, its mean m, row means r_s, column means c_t. With
V_S = sum_s (r_s - m)^2 / (S (S-1)), V_T the same over templates and V_ST = sum (y_st - r_s - c_t + m)^2 /
((S-1) (T-1) S T), the unbiased estimate of Var(m) in the crossed random-effects model is V_S + V_T - V_ST: what the
seeds and the templates add, less what both have counted. Of a difference of two tables with the same templates V_T is
that of the differences c_t - c'_t, which pairs the templates; the seeds of the two are independent, and their V_S and
V_ST add up. Where the estimate comes out below V_T or the sum of the V_S, the larger of these is taken. Degrees of
freedom after Satterthwaite (1946). A table of one row adds no V_S: the spread of its seeds is not known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from mobilerl.eval.statistics import Interval

NORMAL_FROM = 10_000
"""Degrees of freedom from which Student's distribution counts as normal."""
GRID = 200_001


def crossed_interval(table: np.ndarray, minus: np.ndarray | None = None, level: float = 0.95) -> Interval | None:
    """Interval of the mean of `table` (seeds x templates), less that of `minus` if given.

    None where no spread can be seen: a single template, and one seed. Raises ValueError for tables that do not fit.
    """
    tables = [np.asarray(t, float) for t in (table, minus) if t is not None]
    if any(t.ndim != 2 or t.size == 0 or t.shape[1] != tables[0].shape[1] for t in tables):
        raise ValueError(f"tables of seeds and the same templates were expected, not {[t.shape for t in tables]}")
    variance, freedom = _variance(tables)
    if freedom == 0:
        return None
    mean = float(tables[0].mean()) - sum(float(t.mean()) for t in tables[1:])
    half = student_quantile(freedom, level) * math.sqrt(variance)
    return Interval(mean - half, mean + half)


Part = tuple[float, float]
"""A variance and its degrees of freedom."""


def _variance(tables: Sequence[np.ndarray]) -> Part:
    """Of the mean or the difference; 0 degrees of freedom when there is nothing to estimate it from."""
    columns = tables[0].mean(axis=0) - sum(t.mean(axis=0) for t in tables[1:])
    by_template = [_of_mean(columns)] if len(columns) > 1 else []
    by_seed = [_of_mean(t.mean(axis=1)) for t in tables if len(t) > 1]
    shared = [_of_rest(t) for t in tables if len(t) > 1 and by_template]
    return max(_sum(by_template), _sum(by_seed), _sum(by_template + by_seed, shared))


def _of_mean(values: np.ndarray) -> Part:
    freedom = len(values) - 1
    return float(((values - values.mean()) ** 2).sum()) / (len(values) * freedom), freedom


def _of_rest(table: np.ndarray) -> Part:
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0, keepdims=True) + table.mean()
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    return float((rest**2).sum()) / (freedom * table.size), freedom


def _sum(added: Sequence[Part], taken: Sequence[Part] = ()) -> Part:
    total = sum(variance for variance, _ in added) - sum(variance for variance, _ in taken)
    spread = sum(variance**2 / freedom for variance, freedom in (*added, *taken))
    least = min((freedom for _, freedom in added), default=0)
    return total, max(total**2 / spread, least) if spread > 0 else least


def student_quantile(freedom: float, level: float = 0.95) -> float:
    """t with P(|T| <= t) = level, T of Student's distribution with `freedom` >= 1 degrees, which need not be whole.

    With t = sqrt(v) tan(a) the density becomes proportional to cos(a)^(v-1), which is integrated on a grid.
    """
    if freedom < 1 or not 0 < level < 1:
        raise ValueError(f"degrees of freedom {freedom} and level {level} must be at least 1 and between 0 and 1")
    if freedom >= NORMAL_FROM:
        return NormalDist().inv_cdf((1 + level) / 2)
    angle = np.linspace(0, math.pi / 2, GRID)
    density = np.clip(np.cos(angle), 0.0, None) ** (freedom - 1)
    mass = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return math.sqrt(freedom) * math.tan(float(np.interp(level * mass[-1], mass, angle)))
