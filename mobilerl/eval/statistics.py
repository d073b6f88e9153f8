"""How sure an evaluation is: intervals for one success rate and for the difference of two, and pass@k.

Intervals are two-sided 95 % unless `level` says otherwise. All randomness comes from `seed`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Mean of `b - a` over the instances both were measured on, with two intervals for it."""

    mean_a: float
    mean_b: float
    difference: float
    instances: int
    bootstrap: Interval
    normal: Interval


def _z(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"level {level} is not between 0 and 1")
    return NormalDist().inv_cdf((1 + level) / 2)


def wilson_interval(successes: int, trials: int, level: float = 0.95) -> Interval:
    """Wilson's score interval for a proportion (Wilson 1927). No trials give [0, 1]: nothing is known.

    With p = successes / trials and n = trials:
        (p + z^2/2n +- z sqrt(p (1-p) / n + z^2 / 4n^2)) / (1 + z^2/n)
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials is not possible")
    if trials == 0:
        return Interval(0.0, 1.0)
    z, p = _z(level), successes / trials
    scale = 1 + z * z / trials
    centre = (p + z * z / (2 * trials)) / scale
    half = z * math.sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials)) / scale
    # At p = 0 and p = 1 the bound is exactly 0 or 1; rounding must not push it past the point estimate.
    return Interval(min(max(0.0, centre - half), p), max(min(1.0, centre + half), p))


def cluster_bootstrap_interval(
    outcomes: Mapping[str, Sequence[float]], level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Percentile interval of the pooled mean when whole clusters are resampled.

    `outcomes` maps a cluster (a task template) to its outcomes. Attempts at one task succeed and fail together, so an
    interval over single attempts is too narrow; this one treats the tasks as the sample. Raises ValueError for fewer
    than two clusters, whose spread cannot be seen.
    """
    clusters = [values for values in outcomes.values() if len(values)]
    if len(clusters) < 2:
        raise ValueError(f"a cluster bootstrap needs outcomes of at least 2 tasks, not {len(clusters)}")
    sums = np.array([math.fsum(values) for values in clusters])
    counts = np.array([len(values) for values in clusters])
    rng = np.random.default_rng(seed)
    means = np.empty(resamples)
    for i in range(resamples):
        drawn = rng.integers(len(clusters), size=len(clusters))
        means[i] = sums[drawn].sum() / counts[drawn].sum()
    return _percentiles(means, level)


def paired_difference(
    a: Mapping[str, float], b: Mapping[str, float], level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> PairedDifference:
    """`b - a` on the same instances: each maps an instance to its success rate in one evaluation.

    Pairing removes the difficulty of the instances from the comparison. The bootstrap resamples instances; the normal
    interval is mean +- z sd / sqrt(n), sd with ddof=1. Raises ValueError when the instances differ or are fewer than 2.
    """
    if a.keys() != b.keys():
        raise ValueError(describe_mismatch(a, b))
    if len(a) < 2:
        raise ValueError(f"a paired difference needs at least 2 instances, not {len(a)}")
    names = sorted(a)
    before, after = np.array([a[n] for n in names], float), np.array([b[n] for n in names], float)
    change = after - before
    mean, n = float(change.mean()), len(names)
    rng = np.random.default_rng(seed)
    means = np.array([change[rng.integers(n, size=n)].mean() for _ in range(resamples)])
    half = _z(level) * float(change.std(ddof=1)) / math.sqrt(n)
    return PairedDifference(
        mean_a=float(before.mean()),
        mean_b=float(after.mean()),
        difference=mean,
        instances=n,
        bootstrap=_percentiles(means, level),
        normal=Interval(mean - half, mean + half),
    )


def describe_mismatch(a: Mapping[str, object], b: Mapping[str, object]) -> str:
    """One line saying how two sets of instances differ, with an example of each side."""
    parts = []
    for side, extra in (("first", sorted(a.keys() - b.keys())), ("second", sorted(b.keys() - a.keys()))):
        if extra:
            parts.append(f"{len(extra)} only in the {side} (such as {extra[0]!r})")
    return f"the evaluations are not of the same instances: {', '.join(parts)}; evaluate both on the same tasks"


def pass_at_k(trials: int, successes: int, k: int) -> float:
    """Unbiased chance that at least one of k attempts succeeds: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, eq. 1)."""
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials is not possible")
    if not 1 <= k <= trials:
        raise ValueError(f"pass@{k} needs 1 <= k <= {trials} trials")
    return 1.0 - math.comb(trials - successes, k) / math.comb(trials, k)


def _percentiles(means: np.ndarray, level: float) -> Interval:
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))
