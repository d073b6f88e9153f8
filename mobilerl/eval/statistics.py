"""Confidence intervals (two-sided, 95 %) of a success rate and of the difference of two, and pass@k."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

Z = 1.959963984540054
"""Quantile of the normal distribution at 97.5 %."""
RESAMPLES = 10_000
NORMAL_FROM = 10_000
"""Degrees of freedom from which Student's distribution is treated as normal."""


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Mean of `b - a` over the instances that both were measured on, with a bootstrap interval."""

    mean_a: float
    mean_b: float
    difference: float
    instances: int
    bootstrap: Interval


def wilson_interval(successes: int, trials: int) -> Interval:
    """Wilson score interval of a proportion (Wilson 1927); [0, 1] without trials.

    With p = successes / trials and n = trials:
        (p + z^2/2n +- z sqrt(p (1-p) / n + z^2 / 4n^2)) / (1 + z^2/n)
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials is not possible")
    if trials == 0:
        return Interval(0.0, 1.0)
    p = successes / trials
    scale = 1 + Z * Z / trials
    center = (p + Z * Z / (2 * trials)) / scale
    half = Z * math.sqrt(p * (1 - p) / trials + Z * Z / (4 * trials * trials)) / scale
    # At p = 0 and p = 1 the bound is exactly 0 or 1; rounding must not push it past the point estimate.
    return Interval(min(max(0.0, center - half), p), max(min(1.0, center + half), p))


def cluster_bootstrap_interval(outcomes: Mapping[str, Sequence[float]], seed: int = 0) -> Interval:
    """Percentile bootstrap interval of the pooled mean, resampling whole clusters.

    `outcomes` maps a cluster (a task template) to its outcomes. Attempts at one task are correlated, so an interval
    over single attempts is too narrow; this one treats the tasks as the sample. Raises ValueError for fewer than two
    clusters.
    """
    clusters = [values for values in outcomes.values() if len(values)]
    if len(clusters) < 2:
        raise ValueError(f"a cluster bootstrap needs outcomes of at least 2 tasks, not {len(clusters)}")
    sums = np.array([math.fsum(values) for values in clusters])
    counts = np.array([len(values) for values in clusters])
    drawn = _draw_resamples(len(clusters), seed)
    return _percentiles(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))


def paired_difference(a: Mapping[str, float | None], b: Mapping[str, float | None], seed: int = 0) -> PairedDifference:
    """Difference `b - a` on the same instances. Both map instances to success rates, None if unknown.

    Pairing removes the difficulty of the instances from the comparison. The interval resamples instances. Raises
    ValueError if the instances differ or fewer than 2 have a rate in both.
    """
    if a.keys() != b.keys():
        raise ValueError(_mismatch(a, b))
    pairs = [(a[name], b[name]) for name in sorted(a) if a[name] is not None and b[name] is not None]
    if len(pairs) < 2:
        raise ValueError(f"a paired difference needs at least 2 instances, not {len(pairs)}")
    before, after = np.array(pairs, float).T
    change = after - before
    interval = _percentiles(change[_draw_resamples(len(pairs), seed)].mean(axis=1))
    return PairedDifference(float(before.mean()), float(after.mean()), float(change.mean()), len(pairs), interval)


def _mismatch(a: Mapping[str, object], b: Mapping[str, object]) -> str:
    """Describes how two sets of instances differ, with an example from each side."""
    parts = []
    for side, extra in (("first", sorted(a.keys() - b.keys())), ("second", sorted(b.keys() - a.keys()))):
        if extra:
            parts.append(f"{len(extra)} only in the {side} (such as {extra[0]!r})")
    return f"the evaluations are not of the same instances: {', '.join(parts)}; evaluate both on the same tasks"


def pass_at_k(trials: int, successes: int, k: int) -> float:
    """Unbiased estimate of pass@k: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, eq. 1)."""
    if not 0 <= successes <= trials or not 1 <= k <= trials:
        raise ValueError(f"pass@{k} of {successes} successes in {trials} trials is not possible")
    return 1.0 - math.comb(trials - successes, k) / math.comb(trials, k)


def _draw_resamples(n: int, seed: int) -> np.ndarray:
    """Draws (RESAMPLES, n) indices below n."""
    return np.random.default_rng(seed).integers(n, size=(RESAMPLES, n))


def _percentiles(means: np.ndarray) -> Interval:
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(low), float(high))


def student_quantile(freedom: float, level: float = 0.95) -> float:
    """Quantile t with P(|T| <= t) = level of Student's distribution with `freedom` >= 1 degrees, fractional or not."""
    if freedom >= NORMAL_FROM:
        return NormalDist().inv_cdf((1 + level) / 2)
    angle, share = _student_shares(freedom)
    return math.sqrt(freedom) * math.tan(float(np.interp(level, share, angle)))


def student_p(t: float, freedom: float) -> float:
    """Two-sided p-value P(|T| > |t|) of Student's distribution with `freedom` >= 1 degrees, fractional or not."""
    if freedom >= NORMAL_FROM:
        return 2 * (1 - NormalDist().cdf(abs(t)))
    angle, share = _student_shares(freedom)
    return 1 - float(np.interp(math.atan(abs(t) / math.sqrt(freedom)), angle, share))


def _student_shares(freedom: float) -> tuple[np.ndarray, np.ndarray]:
    """P(|T| <= sqrt(v) tan(a)) on a grid of angles a, by which the density is proportional to cos(a)^(v-1)."""
    angle = np.linspace(0, math.pi / 2, 200_001)
    density = np.clip(np.cos(angle), 0.0, None) ** (freedom - 1)
    mass = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return angle, mass / mass[-1]


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for testing all of them, by Holm's step-down method (1979), in the order given.

    With p_(1) <= ... <= p_(m), the adjusted p_(i) is the largest of min(1, (m - j + 1) p_(j)) over j <= i.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
