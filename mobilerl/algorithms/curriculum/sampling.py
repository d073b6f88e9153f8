"""Weighted sampling of tasks."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate

NO_SCALE: Mapping[str, float] = {}


def distinct(task_ids: Iterable[str]) -> list[str]:
    """The ids as a list. Raises ValueError if there are none or if one occurs twice."""
    ids = list(task_ids)
    if not ids:
        raise ValueError("curriculum: no tasks")
    if len(set(ids)) != len(ids):
        twice = next(task for i, task in enumerate(ids) if task in ids[:i])
        raise ValueError(f"curriculum: task {twice!r} is listed twice")
    return ids


def scaled(weights: Mapping[str, float], scale: Mapping[str, float]) -> dict[str, float]:
    """The weights times their factors, which are 1 unless given."""
    return {task: weight * scale.get(task, 1.0) for task, weight in weights.items()}


def systematic_sample(weights: Mapping[str, float], n: int, rng: random.Random) -> list[str]:
    """Samples n keys in random order; key i comes up n * w_i / sum(w) times, rounded up or down but exact on average.

    This is systematic sampling: n evenly spaced marks from a random start on the cumulative weights.
    """
    tasks = list(weights)
    rng.shuffle(tasks)
    ends = list(accumulate(weights[task] for task in tasks))
    start = rng.random()
    marks = [(start + k) * ends[-1] / n for k in range(n)]
    sampled = [tasks[min(bisect_right(ends, mark), len(tasks) - 1)] for mark in marks]
    rng.shuffle(sampled)
    return sampled
